#!/usr/bin/env python3
"""Writes src/text/unicode_tables.cpp from Python's unicodedata: scripts/unicode_tables.py > src/text/unicode_tables.cpp"""
import unicodedata

CATEGORIES = ["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po",
              "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"]
LAST = 0x10FFFF


def category_runs():
    runs, previous = [], None
    for code in range(LAST + 1):
        category = CATEGORIES.index(unicodedata.category(chr(code)))
        if category != previous:
            runs.append(code << 8 | category)
            previous = category
    return runs


def lower_runs():
    """(first, last, step, delta): every step-th code of the range becomes itself + delta."""
    pairs = [(c, ord(chr(c).lower())) for c in range(LAST + 1) if len(chr(c).lower()) == 1 and chr(c).lower() != chr(c)]
    runs = []
    for code, lower in pairs:
        if runs:
            first, last, step, delta = runs[-1]
            gap = code - last
            if lower - code == delta and gap in (1, 2) and step in (0, gap):
                runs[-1] = (first, code, gap, delta)
                continue
        runs.append((code, code, 0, lower - code))
    return [(f, l, s or 1, d) for f, l, s, d in runs]


def decompositions():
    """Full canonical ones, without Hangul syllables, which are computed."""
    out = []
    for code in range(LAST + 1):
        if 0xAC00 <= code <= 0xD7A3:
            continue
        parts = unicodedata.normalize("NFD", chr(code))
        if parts != chr(code):
            out.append((code, [ord(c) for c in parts]))
    return out


def class_runs():
    """The canonical combining classes, as runs."""
    runs, previous = [], None
    for code in range(LAST + 1):
        number = unicodedata.combining(chr(code))
        if number != previous:
            runs.append(code << 8 | number)
            previous = number
    return runs


def compositions():
    """(first, second, both) of the pairs that become one code point, without Hangul."""
    out = []
    for code in range(LAST + 1):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<") and unicodedata.normalize("NFC", chr(code)) == chr(code):
            out.append((int(parts[0], 16), int(parts[1], 16), code))
    return sorted(out)


def rows(items, width=110):
    line, lines = "   ", []
    for item in items:
        if len(line) + len(item) + 2 > width:
            lines.append(line)
            line = "   "
        line += " " + item + ","
    return "\n".join(lines + [line])


def main():
    flat = []
    for code, parts in decompositions():
        flat += [code | len(parts) << 24] + parts
    print(f"""// Written by scripts/unicode_tables.py from Unicode {unicodedata.unidata_version}; not edited by hand.
#include "text/unicode_tables.h"

// clang-format off
namespace gyrus::unicode {{

const uint32_t kCategoryRuns[] = {{
{rows([hex(r) for r in category_runs()])}
}};
const size_t kCategoryRunCount = sizeof kCategoryRuns / sizeof *kCategoryRuns;

const LowerRun kLowerRuns[] = {{
{rows(["{%#x, %#x, %d, %d}" % r for r in lower_runs()])}
}};
const size_t kLowerRunCount = sizeof kLowerRuns / sizeof *kLowerRuns;

const uint32_t kDecompositions[] = {{
{rows([hex(n) for n in flat])}
}};
const size_t kDecompositionCount = sizeof kDecompositions / sizeof *kDecompositions;

const uint32_t kClassRuns[] = {{
{rows([hex(r) for r in class_runs()])}
}};
const size_t kClassRunCount = sizeof kClassRuns / sizeof *kClassRuns;

const Composition kCompositions[] = {{
{rows(["{%#x, %#x, %#x}" % c for c in compositions()])}
}};
const size_t kCompositionCount = sizeof kCompositions / sizeof *kCompositions;

}}  // namespace gyrus::unicode""")


main()

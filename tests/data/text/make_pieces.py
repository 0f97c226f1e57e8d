#!/usr/bin/env python3
"""Writes pieces.json: how the pre-tokenizers cut texts, by Python's regex module (Debian: python3-regex), from the
expressions in the models' own tokenizer files. tests/data/text/make_pieces.py > tests/data/text/pieces.json"""
import json
import random
import regex

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"


def cased(short, digits):
    start = r"[^\r\n\p{L}\p{N}]?"
    return (f"{start}{UPPER}*{LOWER}+{short}|{start}{UPPER}+{LOWER}*{short}|{digits}"
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


MODELS = {
    "gpt-2": [GPT2],
    "llama-bpe": [LLAMA3],
    "qwen2": [QWEN2],
    "smollm": [r"\p{N}", GPT2],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
                    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
                    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "tekken": [cased("", r"\p{N}")],
    "gpt-4o": [cased(SHORT, r"\p{N}{1,3}")],
}
ALPHABET = list("aabBcZé'stdmrelvLKÄß0123 45½²  \t\n\n\r.,!?$+<=>^~|`#/()-_\"…—“") + list(
    "我想天ぁアー가힣нещоក់ា\u0301\u00a0\u3000\u2028🦙🚀\u200d\ufe0fⅣ٣ǅʰ\x00\x7f")


def split(text, patterns):
    pieces = [text] if text else []
    for pattern in patterns:
        finer = []
        for piece in pieces:
            at = 0
            for match in regex.finditer(pattern, piece):
                if match.start() > at:
                    finer.append(piece[at:match.start()])
                if match.end() > match.start():
                    finer.append(match.group())
                at = match.end()
            if at < len(piece):
                finer.append(piece[at:])
        pieces = finer
    return pieces


def main():
    random.seed(14)
    texts = ["", "Hello, y'all! I'VE 12345 apples.\r\n\n  And\tmore  ", "don't DON'T iPhone HTMLParser's x=3.14;"]
    texts += ["".join(random.choices(ALPHABET, k=random.randint(1, 40))) for _ in range(60)]
    out = {name: [split(text, patterns) for text in texts] for name, patterns in MODELS.items()}
    print(json.dumps({"texts": texts, "pieces": out}, ensure_ascii=True, separators=(",", ":")))


main()

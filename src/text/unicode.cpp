#include "text/unicode.h"

#include <algorithm>

#include "text/unicode_tables.h"

namespace gyrus::unicode {
namespace {

constexpr uint32_t kReplacement = 0xfffd;
constexpr uint32_t kHangul = 0xac00, kHangulEnd = 0xd7a4;

bool between(Category category, Category first, Category last) { return category >= first && category <= last; }

// Bytes of the character that a byte starts; 0 where it starts none.
uint32_t expected_bytes(uint8_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

// Whether byte `i` (from 1) may stand in a character that starts with `first`: no surrogates, nothing overlong or
// beyond the last code point.
bool continues(uint8_t first, uint32_t i, uint8_t byte) {
  if ((byte & 0xc0) != 0x80) return false;
  if (i > 1) return true;
  if (first == 0xe0) return byte >= 0xa0;
  if (first == 0xed) return byte < 0xa0;
  if (first == 0xf0) return byte >= 0x90;
  return first != 0xf4 || byte < 0x90;
}

// What a table of runs, each its first code point << 8 and a number, has for a code point.
uint32_t in_runs(const uint32_t* runs, size_t count, uint32_t code) {
  return std::upper_bound(runs, runs + count, code << 8 | 0xff)[-1] & 0xff;
}

uint32_t combining_class(uint32_t code) { return in_runs(kClassRuns, kClassRunCount, code); }

constexpr uint32_t kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11a7;
constexpr uint32_t kLeadCount = 19, kVowelCount = 21, kTailCount = 28;

// The one code point that two are together, or 0.
uint32_t pair_of(uint32_t first, uint32_t second) {
  if (first - kLeads < kLeadCount && second - kVowels < kVowelCount)
    return kHangul + ((first - kLeads) * kVowelCount + second - kVowels) * kTailCount;
  const bool open = first >= kHangul && first < kHangulEnd && (first - kHangul) % kTailCount == 0;
  if (open && second > kTails && second < kTails + kTailCount) return first + second - kTails;
  const Composition* const end = kCompositions + kCompositionCount;
  const Composition* const found = std::lower_bound(
      kCompositions, end, Composition{first, second, 0}, [](const Composition& a, const Composition& b) {
        return a.first != b.first ? a.first < b.first : a.second < b.second;
      });
  return found != end && found->first == first && found->second == second ? found->both : 0;
}

// After The Unicode Standard, 3.11: a mark joins the last starter, unless one of its own class, or none, lies between.
std::vector<uint32_t> joined(const std::vector<uint32_t>& codes) {
  std::vector<uint32_t> out;
  size_t starter = ~size_t{0};
  uint32_t before = 0;  // the class of the code point before
  for (const uint32_t code : codes) {
    const uint32_t own = combining_class(code);
    const bool beside = starter != ~size_t{0} && (starter + 1 == out.size() || (before < own && before != 0));
    if (const uint32_t both = beside ? pair_of(out[starter], code) : 0; both != 0) {
      out[starter] = both;
      continue;
    }
    if (own == 0) starter = out.size();
    before = own;
    out.push_back(code);
  }
  return out;
}

}  // namespace

Category category(uint32_t code) { return static_cast<Category>(in_runs(kCategoryRuns, kCategoryRunCount, code)); }

bool is_letter(uint32_t code) { return between(category(code), Category::Lu, Category::Lo); }
bool is_mark(uint32_t code) { return between(category(code), Category::Mn, Category::Me); }
bool is_number(uint32_t code) { return between(category(code), Category::Nd, Category::No); }
bool is_punctuation(uint32_t code) { return between(category(code), Category::Pc, Category::Po); }
bool is_symbol(uint32_t code) { return between(category(code), Category::Sm, Category::So); }
bool is_space(uint32_t code) {
  return (code >= 9 && code <= 13) || code == 0x85 || between(category(code), Category::Zs, Category::Zp);
}

uint32_t lower(uint32_t code) {
  const LowerRun* const end = kLowerRuns + kLowerRunCount;
  const LowerRun* run =
      std::lower_bound(kLowerRuns, end, code, [](const LowerRun& r, uint32_t value) { return r.last < value; });
  if (run == end || code < run->first || (code - run->first) % static_cast<uint32_t>(run->step) != 0) return code;
  return code + static_cast<uint32_t>(run->delta);
}

void decompose(uint32_t code, std::vector<uint32_t>& to) {
  if (code >= kHangul && code < kHangulEnd) {
    const uint32_t index = code - kHangul;
    to.push_back(kLeads + index / (kVowelCount * kTailCount));
    to.push_back(kVowels + index % (kVowelCount * kTailCount) / kTailCount);
    if (index % kTailCount != 0) to.push_back(kTails + index % kTailCount);
    return;
  }
  // Built once: where the entry of each code point starts.
  static const std::vector<size_t> starts = [] {
    std::vector<size_t> out;
    for (size_t i = 0; i < kDecompositionCount; i += 1 + (kDecompositions[i] >> 24)) out.push_back(i);
    return out;
  }();
  const auto code_at = [](size_t at) { return kDecompositions[at] & 0xffffff; };
  const auto found = std::lower_bound(starts.begin(), starts.end(), code,
                                      [&](size_t at, uint32_t value) { return code_at(at) < value; });
  if (found == starts.end() || code_at(*found) != code) return to.push_back(code);
  const uint32_t* const entry = kDecompositions + *found;
  to.insert(to.end(), entry + 1, entry + 1 + (*entry >> 24));
}

std::string composed(std::string_view text) {
  std::string out;
  std::vector<uint32_t> codes;
  const auto flush = [&] {
    for (size_t from = 0; from < codes.size();) {  // marks in the order of their classes
      size_t to = from + 1;
      while (to < codes.size() && combining_class(codes[to]) != 0) ++to;
      const size_t first = from + (combining_class(codes[from]) == 0 ? 1 : 0);
      std::stable_sort(codes.begin() + static_cast<std::ptrdiff_t>(first),
                       codes.begin() + static_cast<std::ptrdiff_t>(to),
                       [](uint32_t a, uint32_t b) { return combining_class(a) < combining_class(b); });
      from = to;
    }
    for (const uint32_t code : joined(codes)) append_utf8(out, code);
    codes.clear();
  };
  while (!text.empty()) {
    const Character character = first_character(text);
    if (character.bytes == 1 && character.code == kReplacement) {
      flush();
      out += text[0];
    } else {
      decompose(character.code, codes);
    }
    text.remove_prefix(character.bytes);
  }
  flush();
  return out;
}

Character first_character(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  const uint32_t bytes = expected_bytes(first);
  if (bytes == 1) return {first, 1};
  if (bytes == 0 || text.size() < bytes) return {kReplacement, 1};
  uint32_t code = first & (0x7fU >> bytes);
  for (uint32_t i = 1; i < bytes; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (!continues(first, i, byte)) return {kReplacement, 1};
    code = code << 6 | (byte & 0x3f);
  }
  return {code, bytes};
}

void append_utf8(std::string& text, uint32_t code) {
  const auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xe0 | code >> 12);
    } else {
      put(0xf0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3f));
    }
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

size_t unfinished_bytes(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto first = static_cast<uint8_t>(text[text.size() - back]);
    if ((first & 0xc0) == 0x80) continue;
    const uint32_t bytes = expected_bytes(first);
    if (bytes <= back) return 0;
    for (uint32_t i = 1; i < back; ++i) {
      if (!continues(first, i, static_cast<uint8_t>(text[text.size() - back + i]))) return 0;
    }
    return back;
  }
  return 0;
}

}  // namespace gyrus::unicode

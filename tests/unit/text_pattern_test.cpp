#include "text/pattern.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "text/algorithm.h"
#include "text/unicode.h"
#include "unit/import_support.h"

namespace gyrus::test {
namespace {

std::vector<uint32_t> codes_of(std::string_view text) {
  std::vector<uint32_t> out;
  while (!text.empty()) {
    const unicode::Character character = unicode::first_character(text);
    out.push_back(character.code);
    text.remove_prefix(character.bytes);
  }
  return out;
}

std::string text_of_codes(const std::vector<uint32_t>& codes) {
  std::string out;
  for (const uint32_t code : codes) unicode::append_utf8(out, code);
  return out;
}

size_t match(const char* pattern, const char* text) { return Pattern(pattern).match(codes_of(text), 0); }

TEST(Pattern, MatchesTheFirstAlternative) {
  EXPECT_EQ(match("a|ab", "ab"), 1U);
  EXPECT_EQ(match("ab|a", "ab"), 2U);
  EXPECT_EQ(match("(?:ab|a)b", "ab"), 2U);
  EXPECT_EQ(match("a{2,3}", "aaaa"), 3U);
  EXPECT_EQ(match("a{2}", "a"), Pattern::kNone);
  EXPECT_EQ(match("a*ab", "aaab"), 4U);
  EXPECT_EQ(match("a*+ab", "aaab"), Pattern::kNone);
  EXPECT_EQ(match("a?+ab", "ab"), Pattern::kNone);
  EXPECT_EQ(match("a?+a++b", "aaab"), 4U);
  EXPECT_EQ(match("\\s+(?!\\S)", "   x"), 2U);
  EXPECT_EQ(match("\\s+(?!\\S)", "   "), 3U);
  EXPECT_EQ(match("\\s+$", "  x"), Pattern::kNone);
  EXPECT_EQ(match("(?=ab)a", "ab"), 1U);
  EXPECT_EQ(match("(?i:'re)x", "'Rex"), 4U);
  EXPECT_EQ(match("(?:a)?b", "b"), 1U);
  EXPECT_EQ(match("[^\\p{L}\\-x-z]", "-"), Pattern::kNone);
  EXPECT_EQ(match("\\p{Lu}\\p{Ll}", "\u00c4\u00df"), 2U);
  EXPECT_EQ(match("[\u4e00-\u9fa5]+", "\u6211\u60f3a"), 2U);
}

TEST(Pattern, RefusesWhatItDoesNotKnow) {
  for (const char* text :
       {"a**", "(a)*", "(a", "a)", "[a", "\\w", "\\p{Xx}", "\\p{L", "a{2", "a{3,2}", ".", "^a", "a+?", "a+++", "a{2}+"})
    expect_error(ErrorCode::Unsupported, "not understood", [&] { Pattern{text}; });
}

TEST(Pattern, LongTextsAreNoProblem) {
  const std::vector<uint32_t> spaces(200000, ' ');
  for (const std::string& name : pre_tokenizer_names()) {
    std::vector<Pattern> patterns;
    for (const char* const pattern : pre_tokenizer(name, "").patterns) patterns.emplace_back(pattern);
    EXPECT_EQ(split_by(patterns, spaces).back(), spaces.size()) << name;
    EXPECT_EQ(split_by(patterns, std::vector<uint32_t>(200000, 'A')).back(), spaces.size()) << name;
  }
}

// Where the regular expressions of JavaScript end the pieces, of models that pieces.json does not have.
TEST(Pattern, MorePreTokenizersCutAsOthersDo) {
  const std::vector<uint32_t> text = codes_of("Don't  x12, \u00c4B\r\n \u6211a\u0301 <sentinel:1>!?  IMGIMGAZ\u3002\n");
  const std::pair<const char*, std::vector<size_t>> wanted[] = {
      {"deepseek-llm", {3, 4, 5, 6, 8, 10, 11, 13, 14, 15, 16, 17, 18, 19, 20, 22, 30, 31, 32, 35, 36, 45, 46, 47}},
      {"bloom", {5, 6, 10, 11, 14, 16, 20, 33, 36, 45, 47}},
      {"viking", {5, 6, 8, 9, 10, 11, 14, 16, 20, 31, 32, 33, 36, 45, 47}},
      {"chameleon", {3, 4, 5, 7, 8, 9, 10, 11, 14, 15, 16, 19, 20, 21, 22, 30, 31, 32, 33, 34, 35, 37, 45, 46, 47}},
      {"bailingmoe", {3, 5, 6, 8, 9, 10, 11, 14, 16, 19, 20, 22, 30, 31, 32, 35, 36, 45, 47}},
      {"seed-coder", {3, 5, 6, 8, 9, 10, 11, 14, 16, 19, 20, 22, 30, 31, 32, 35, 36, 45, 46, 47}},
      {"qwen35", {3, 5, 6, 8, 9, 10, 11, 14, 16, 20, 22, 30, 31, 32, 35, 36, 45, 47}}};
  for (const auto& [name, ends] : wanted) {
    std::vector<Pattern> patterns;
    for (const char* const pattern : pre_tokenizer(name, "").patterns) patterns.emplace_back(pattern);
    EXPECT_EQ(split_by(patterns, text), ends) << name;
  }
}

// Cut by Python's regex module (tests/data/text/make_pieces.py).
TEST(Pattern, PreTokenizersCutAsOthersDo) {
  std::ifstream file(std::string(GYRUS_SOURCE_DIR) + "/tests/data/text/pieces.json");
  const nlohmann::json expected = nlohmann::json::parse(file);
  for (const auto& [name, lists] : expected["pieces"].items()) {
    std::vector<Pattern> patterns;
    for (const char* const pattern : pre_tokenizer(name, "").patterns) patterns.emplace_back(pattern);
    for (size_t i = 0; i < lists.size(); ++i) {
      const std::vector<uint32_t> codes = codes_of(expected["texts"][i].get<std::string>());
      std::vector<std::string> got;
      size_t from = 0;
      for (const size_t end : split_by(patterns, codes)) {
        got.push_back(text_of_codes({codes.begin() + from, codes.begin() + end}));
        from = end;
      }
      EXPECT_EQ(got, lists[i].get<std::vector<std::string>>()) << name << " " << i;
    }
  }
}

TEST(Unicode, Utf8GoesThereAndBack) {
  for (uint32_t code = 0; code < 0x110000; code += code < 0x3000 ? 1 : 97) {
    if (code >= 0xd800 && code < 0xe000) continue;
    std::string text;
    unicode::append_utf8(text, code);
    const unicode::Character back = unicode::first_character(text);
    ASSERT_EQ(back.code, code);
    ASSERT_EQ(back.bytes, text.size());
    for (size_t cut = 1; cut < text.size(); ++cut) ASSERT_EQ(unicode::unfinished_bytes(text.substr(0, cut)), cut);
    ASSERT_EQ(unicode::unfinished_bytes(text), 0U);
  }
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8", "\xc3(", "\xff"}) {
    EXPECT_EQ(unicode::first_character(bad).code, 0xfffdU);
    EXPECT_EQ(unicode::first_character(bad).bytes, 1U);
  }
}

TEST(Unicode, KnowsItsTables) {
  EXPECT_EQ(unicode::category('a'), unicode::Category::Ll);
  EXPECT_EQ(unicode::category(0x10ffff), unicode::Category::Cn);
  EXPECT_EQ(unicode::category(0), unicode::Category::Cc);
  EXPECT_TRUE(unicode::is_space(0x85) && unicode::is_space(0x3000) && !unicode::is_space(0x200b));
  EXPECT_EQ(unicode::lower(0xc4), 0xe4U);
  EXPECT_EQ(unicode::lower(0x100), 0x101U);
  EXPECT_EQ(unicode::lower(0x101), 0x101U);
  EXPECT_EQ(unicode::lower(0x1e9e), 0xdfU);
  std::vector<uint32_t> parts;
  unicode::decompose(0x1eed, parts);  // ử
  EXPECT_EQ(parts, (std::vector<uint32_t>{'u', 0x31b, 0x309}));
  parts.clear();
  unicode::decompose(0xd55c, parts);  // 한
  EXPECT_EQ(parts, (std::vector<uint32_t>{0x1112, 0x1161, 0x11ab}));
}

// As Python's unicodedata.normalize("NFC") has them.
TEST(Unicode, ComposesTexts) {
  const std::pair<const char*, const char*> pairs[] = {
      {"", ""},
      {"e\u0301", "\u00e9"},
      {"q\u0307\u0323", "q\u0323\u0307"},             // marks in the order of their classes
      {"u\u0309\u031b", "\u1eed"},                    // the second mark joins first
      {"a\u0328\u0301\u0301", "\u0105\u0301\u0301"},  // of two marks of a class the second stays
      {"\u1112\u1161\u11ab", "\ud55c"},
      {"\uac00\u11a7", "\uac00\u11a7"},  // no tail
      {"\u0344", "\u0308\u0301"},        // one that is never written
      {"\u212b\u2126", "\u00c5\u03a9"},
      {"e\xff\u0301", "e\xff\u0301"}};
  for (const auto& [text, want] : pairs) EXPECT_EQ(unicode::composed(text), want) << text;
}

}  // namespace
}  // namespace gyrus::test

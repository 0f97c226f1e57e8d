#pragma once
#include <bitset>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace gyrus {

// The regular expressions that pre-tokenizers are written in, over code points: alternatives, groups ( ) (?: ) (?i: ),
// looking ahead (?= ) (?! ), the end $, sets [ ] with ranges and \p{L} \p{Lu} … \s \S \d \r \n \t, and the greedy
// quantifiers ? * + {n} {m,n}, also possessive ones (?+ *+ ++); of a group only ?. As usual the first alternative that
// matches is taken.
class Pattern {
 public:
  // Throws Unsupported where the text has anything else.
  explicit Pattern(std::string_view text);

  static constexpr size_t kNone = ~size_t{0};
  // The end of the match that starts at `from`, or kNone.
  size_t match(const std::vector<uint32_t>& text, size_t from) const { return match_at(start_, text, from); }

 private:
  friend class PatternParser;
  struct Set {
    uint32_t categories = 0;  // a bit for each
    bool space = false, other_than_space = false, negated = false;
    std::vector<std::pair<uint32_t, uint32_t>> ranges{};
    std::bitset<128> small{};  // the answer for ASCII
    bool has(uint32_t code) const { return code < 128 ? small[code] : look_up(code); }
    bool look_up(uint32_t code) const;
  };
  enum class Kind : uint8_t { Accept, Repeat, Choice, Ahead, NotAhead, End };
  struct Node {
    Kind kind = Kind::Accept;
    size_t set = 0;  // Repeat
    size_t least = 1, most = 1;
    bool possessive = false;       // gives nothing back
    std::vector<size_t> starts{};  // Choice: of the alternatives, which lead on to `next` themselves; Ahead: the one
    size_t next = 0;
  };
  size_t match_at(size_t node, const std::vector<uint32_t>& text, size_t at) const;

  std::vector<Set> sets_;
  std::vector<Node> nodes_;
  size_t start_ = 0;
};

// The text cut by one pattern after another: matches and what lies between them are pieces. Ends of the pieces, in code
// points.
std::vector<size_t> split_by(const std::vector<Pattern>& patterns, const std::vector<uint32_t>& text);

}  // namespace gyrus

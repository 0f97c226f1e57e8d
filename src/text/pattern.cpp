#include "text/pattern.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "text/unicode.h"

// Backtracking over a graph of nodes. Only choices and looking ahead recurse, so the depth is bounded by the pattern; a
// repetition counts how far it can go and steps back.

namespace gyrus {
namespace {

constexpr size_t kEndless = ~size_t{0};
constexpr const char* kCategoryNames[] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
                                          "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc",
                                          "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};

}  // namespace

bool Pattern::Set::look_up(uint32_t code) const {
  bool found = (categories >> static_cast<uint32_t>(unicode::category(code)) & 1) != 0;
  if (space || other_than_space) found = found || (unicode::is_space(code) ? space : other_than_space);
  for (const auto& [first, last] : ranges) found = found || (code >= first && code <= last);
  return found != negated;
}

size_t Pattern::match_at(size_t index, const std::vector<uint32_t>& text, size_t at) const {
  for (;;) {
    const Node& node = nodes_[index];
    switch (node.kind) {
      case Kind::Accept: return at;
      case Kind::End:
        if (at != text.size()) return kNone;
        break;
      case Kind::Ahead:
      case Kind::NotAhead:
        if ((match_at(node.starts[0], text, at) != kNone) != (node.kind == Kind::Ahead)) return kNone;
        break;
      case Kind::Choice:
        for (const size_t start : node.starts) {
          if (const size_t end = match_at(start, text, at); end != kNone) return end;
        }
        return kNone;
      case Kind::Repeat: {
        const Set& set = sets_[node.set];
        size_t count = 0;
        while (count < node.most && at + count < text.size() && set.has(text[at + count])) ++count;
        if (count < node.least) return kNone;
        for (; count > node.least && !node.possessive; --count) {
          if (const size_t end = match_at(node.next, text, at + count); end != kNone) return end;
        }
        at += count;
        break;
      }
    }
    index = node.next;
  }
}

class PatternParser {
 public:
  PatternParser(Pattern& out, std::string_view text) : out_(out), text_(text) {}

  void parse() {
    out_.nodes_.push_back({});  // the one that accepts
    const std::vector<Sequence> all = alternatives();
    if (at_ != text_.size()) bad();
    out_.start_ = join(all, 0);
    for (Pattern::Set& set : out_.sets_) {
      for (uint32_t code = 0; code < 128; ++code) set.small[code] = set.look_up(code);
    }
  }

 private:
  // What was read, before it is linked: nodes need to know what follows them.
  struct Item;
  using Sequence = std::vector<Item>;
  struct Item {
    Pattern::Kind kind;
    size_t set = 0;
    size_t least = 1, most = 1;
    bool possessive = false;
    std::vector<Sequence> choices{};
  };

  [[noreturn]] void bad() const {
    fail(ErrorCode::Unsupported, "pattern", "not understood at byte ", at_, " of ", std::string(text_));
  }
  bool is(std::string_view word) const { return text_.substr(at_, word.size()) == word; }
  bool take(std::string_view word) {
    if (!is(word)) return false;
    at_ += word.size();
    return true;
  }
  uint32_t code() {
    if (at_ >= text_.size()) bad();
    const unicode::Character character = unicode::first_character(text_.substr(at_));
    at_ += character.bytes;
    return character.code;
  }

  std::vector<Sequence> alternatives() {
    std::vector<Sequence> out(1);
    while (at_ < text_.size() && !is(")")) {
      if (take("|"))
        out.emplace_back();
      else
        out.back().push_back(item());
    }
    return out;
  }

  Item item() {
    if (take("$")) return {Pattern::Kind::End};
    if (take("(")) return group();
    Item out{Pattern::Kind::Repeat};
    out.set = out_.sets_.size();
    out_.sets_.push_back(take("[") ? bracket() : single());
    quantifier(out);
    return out;
  }

  Item group() {
    Item out{Pattern::Kind::Choice};
    const bool fold = fold_;
    if (take("?=")) {
      out.kind = Pattern::Kind::Ahead;
    } else if (take("?!")) {
      out.kind = Pattern::Kind::NotAhead;
    } else if (take("?i:")) {
      fold_ = true;
    } else {
      take("?:");
    }
    out.choices = alternatives();
    if (!take(")")) bad();
    fold_ = fold;
    if (take("?")) out.choices.emplace_back();
    if (is("*") || is("+") || is("{") || is("?")) bad();
    return out;
  }

  void quantifier(Item& item) {
    bool counted = false;
    if (take("?")) {
      item.least = 0;
    } else if (take("*")) {
      item.least = 0;
      item.most = kEndless;
    } else if (take("+")) {
      item.most = kEndless;
    } else if (take("{")) {
      counted = true;
      item.least = item.most = number();
      if (take(",")) item.most = is("}") ? kEndless : number();
      if (!take("}") || item.most < item.least) bad();
    } else {
      return;
    }
    item.possessive = !counted && take("+");
    if (is("?") || is("*") || is("+")) bad();  // lazy ones
  }
  size_t number() {
    size_t value = 0;
    const size_t start = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && value < 1000)
      value = value * 10 + static_cast<size_t>(text_[at_++] - '0');
    if (at_ == start) bad();
    return value;
  }

  void add_code(Pattern::Set& set, uint32_t first, uint32_t last) const {
    set.ranges.emplace_back(first, last);
    const auto letter = [](uint32_t c, char a, char z) {
      return c >= static_cast<uint32_t>(a) && c <= static_cast<uint32_t>(z);
    };
    if (!fold_) return;
    if (letter(first, 'a', 'z') && letter(last, 'a', 'z')) set.ranges.emplace_back(first - 32, last - 32);
    if (letter(first, 'A', 'Z') && letter(last, 'A', 'Z')) set.ranges.emplace_back(first + 32, last + 32);
  }

  // \p{…}, \s, \S or \d go into the set; any other escape is the code point returned.
  bool escape(Pattern::Set& set, uint32_t& single_code) {
    if (take("p{")) return property(set);
    const uint32_t letter = code();
    switch (letter) {
      case 's': return set.space = true;
      case 'S': return set.other_than_space = true;
      case 'd': set.categories |= 1U << static_cast<uint32_t>(unicode::Category::Nd); return true;
      case 'r': single_code = '\r'; return false;
      case 'n': single_code = '\n'; return false;
      case 't': single_code = '\t'; return false;
      default: break;
    }
    if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9')) bad();
    single_code = letter;
    return false;
  }
  bool property(Pattern::Set& set) {
    const size_t end = text_.find('}', at_);
    if (end == std::string_view::npos || end == at_) bad();
    const std::string_view name = text_.substr(at_, end - at_);
    uint32_t bits = 0;
    for (uint32_t i = 0; i < std::size(kCategoryNames); ++i) {
      if (std::string_view(kCategoryNames[i]).substr(0, name.size()) == name) bits |= 1U << i;
    }
    if (bits == 0) bad();
    at_ = end + 1;
    set.categories |= bits;
    return true;
  }

  Pattern::Set single() {
    Pattern::Set set;
    if (is("*") || is("+") || is("?") || is("{") || is("^") || is(".")) bad();
    uint32_t only = 0;
    if (take("\\")) {
      if (escape(set, only)) return set;
    } else {
      only = code();
    }
    add_code(set, only, only);
    return set;
  }

  Pattern::Set bracket() {
    Pattern::Set set;
    set.negated = take("^");
    while (!take("]")) {
      uint32_t first = 0;
      if (take("\\")) {
        if (escape(set, first)) continue;
      } else {
        first = code();
      }
      uint32_t last = first;
      if (is("-") && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        Pattern::Set unused;
        if (take("\\")) {
          if (escape(unused, last)) bad();
        } else {
          last = code();
        }
      }
      if (last < first) bad();
      add_code(set, first, last);
    }
    return set;
  }

  size_t add(Pattern::Node node) {
    out_.nodes_.push_back(std::move(node));
    return out_.nodes_.size() - 1;
  }
  // From the last item to the first.
  size_t link(const Sequence& sequence, size_t next) {
    for (size_t i = sequence.size(); i-- > 0;) {
      const Item& from = sequence[i];
      Pattern::Node node{from.kind, from.set, from.least, from.most, from.possessive, {}, next};
      if (from.kind == Pattern::Kind::Choice) {
        next = join(from.choices, next);
        continue;
      }
      if (from.kind == Pattern::Kind::Ahead || from.kind == Pattern::Kind::NotAhead)
        node.starts.push_back(join(from.choices, 0));
      next = add(std::move(node));
    }
    return next;
  }
  size_t join(const std::vector<Sequence>& choices, size_t next) {
    if (choices.size() == 1) return link(choices[0], next);
    Pattern::Node node{Pattern::Kind::Choice, 0, 1, 1, false, {}, next};
    for (const Sequence& choice : choices) node.starts.push_back(link(choice, next));
    return add(std::move(node));
  }

  Pattern& out_;
  std::string_view text_;
  size_t at_ = 0;      // bytes
  bool fold_ = false;  // inside (?i: )
};

Pattern::Pattern(std::string_view text) { PatternParser(*this, text).parse(); }

namespace {

// `text` is one piece.
void split_piece(const Pattern& pattern, const std::vector<uint32_t>& text, size_t offset, std::vector<size_t>& ends) {
  size_t from = 0;  // of what has not matched
  for (size_t at = 0; at < text.size();) {
    const size_t end = pattern.match(text, at);
    if (end == Pattern::kNone || end == at) {
      ++at;
      continue;
    }
    if (at > from) ends.push_back(offset + at);
    ends.push_back(offset + end);
    from = at = end;
  }
  if (from < text.size()) ends.push_back(offset + text.size());
}

}  // namespace

std::vector<size_t> split_by(const std::vector<Pattern>& patterns, const std::vector<uint32_t>& text) {
  std::vector<size_t> ends;
  if (!text.empty()) ends.push_back(text.size());
  for (const Pattern& pattern : patterns) {
    std::vector<size_t> finer;
    size_t from = 0;
    for (const size_t end : ends) {
      const std::vector<uint32_t> piece(text.begin() + static_cast<std::ptrdiff_t>(from),
                                        text.begin() + static_cast<std::ptrdiff_t>(end));
      split_piece(pattern, piece, from, finer);
      from = end;
    }
    ends = std::move(finer);
  }
  return ends;
}

}  // namespace gyrus

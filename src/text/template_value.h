#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyrus {

// A value of a chat template, as Python has them. Copies of lists and maps share them.
class TemplateValue {
 public:
  enum class Kind : uint8_t { Undefined, None, Bool, Integer, Real, Text, List, Map };
  using List = std::vector<TemplateValue>;
  using Map = std::vector<std::pair<std::string, TemplateValue>>;  // in the order in which it was written

  TemplateValue() = default;
  static TemplateValue none();
  static TemplateValue undefined(std::string name);  // knows what it would have been
  static TemplateValue boolean(bool value);
  static TemplateValue integer(int64_t value);
  static TemplateValue real(double value);
  static TemplateValue text(std::string value);
  // Nested deeper, or larger with all that they hold, than any prompt is: InvalidInput.
  static TemplateValue list(List values);
  static TemplateValue map(Map values);
  static TemplateValue name_space(Map values);  // a map that may change, and lies in no other value

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_number() const { return kind_ == Kind::Integer || kind_ == Kind::Real || kind_ == Kind::Bool; }
  bool is_namespace() const { return namespace_; }
  bool truth() const;
  int64_t as_integer() const { return integer_; }  // of Bool too
  double as_real() const { return kind_ == Kind::Real ? real_ : static_cast<double>(integer_); }
  const std::string& as_text() const { return text_; }  // of Undefined: its name
  const List& items() const { return *list_; }
  const Map& entries() const { return *map_; }
  const TemplateValue* find(std::string_view key) const;  // of a map; null where absent
  void put(const std::string& key, TemplateValue value);  // into the map, which copies share
  size_t size() const;                                    // of a text in characters

  std::string printed() const;         // str() of Python
  std::string quoted() const;          // repr()
  std::string json(int indent) const;  // json.dumps(…, ensure_ascii=False, indent=…); −1: on one line
  bool equals(const TemplateValue& other) const;

 private:
  void write_json(std::string& out, int indent, int depth) const;
  void hold(const TemplateValue& part);

  Kind kind_ = Kind::Undefined;
  int64_t integer_ = 0;
  double real_ = 0;
  std::string text_;
  std::shared_ptr<List> list_;
  std::shared_ptr<Map> map_;
  bool namespace_ = false;
  int depth_ = 0;        // of lists and maps inside one another
  uint64_t weight_ = 0;  // bytes of all that it holds, again and again where it holds a value several times
};

}  // namespace gyrus

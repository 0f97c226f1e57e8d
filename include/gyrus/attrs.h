#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gyrus {

struct Tensor;

// One attribute of a node. Booleans are integers 0 and 1. Tensors are shared, and equal where they are the same one.
using Attr = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                          std::shared_ptr<const Tensor>>;

// The attributes of a node by name. Reading one that is absent gives the fallback, or throws where there is none;
// reading one of another type throws InvalidGraph.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<const std::string, Attr>> init) : values_(init) {}

  void set(const std::string& name, Attr value) { values_[name] = std::move(value); }
  void erase(const std::string& name) { values_.erase(name); }
  bool has(const std::string& name) const { return values_.count(name) != 0; }

  int64_t integer(const std::string& name) const;
  int64_t integer(const std::string& name, int64_t fallback) const;
  double number(const std::string& name) const;  // takes an integer attribute too
  double number(const std::string& name, double fallback) const;
  const std::string& text(const std::string& name) const;
  std::string text(const std::string& name, const std::string& fallback) const;
  const std::vector<int64_t>& integers(const std::string& name) const;
  std::vector<int64_t> integers(const std::string& name, const std::vector<int64_t>& fallback) const;
  std::vector<double> numbers(const std::string& name) const;  // takes a list of integers too
  std::vector<double> numbers(const std::string& name, const std::vector<double>& fallback) const;
  const std::shared_ptr<const Tensor>& tensor(const std::string& name) const;

  const std::map<std::string, Attr>& all() const { return values_; }
  bool operator==(const Attrs&) const = default;

 private:
  const Attr& at(const std::string& name) const;
  std::map<std::string, Attr> values_;
};

// "name=value, …" in the order of names.
std::string to_string(const Attrs& attrs);

}  // namespace gyrus

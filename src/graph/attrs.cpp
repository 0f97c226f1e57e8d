#include "gyrus/attrs.h"

#include "core/error.h"
#include "core/tensor.h"

namespace gyrus {
namespace {

template <class T>
const T& expect(const Attr& value, const std::string& name, const char* what) {
  if (const T* typed = std::get_if<T>(&value)) return *typed;
  fail(ErrorCode::InvalidGraph, "attribute", "'", name, "' is not ", what);
}

struct Printer {
  std::ostringstream& out;
  void operator()(int64_t v) const { out << v; }
  void operator()(double v) const { out << v; }
  void operator()(const std::string& v) const { out << '"' << v << '"'; }
  template <class T>
  void operator()(const std::vector<T>& v) const {
    out << '[';
    for (size_t i = 0; i < v.size(); ++i) out << (i ? "," : "") << v[i];
    out << ']';
  }
  void operator()(const std::shared_ptr<const Tensor>& v) const { out << to_string(v->dtype) << to_string(v->shape); }
};

}  // namespace

const Attr& Attrs::at(const std::string& name) const {
  const auto it = values_.find(name);
  if (it == values_.end()) fail(ErrorCode::InvalidGraph, "attribute", "'", name, "' is missing");
  return it->second;
}

int64_t Attrs::integer(const std::string& name) const { return expect<int64_t>(at(name), name, "an integer"); }
int64_t Attrs::integer(const std::string& name, int64_t fallback) const { return has(name) ? integer(name) : fallback; }

double Attrs::number(const std::string& name) const {
  const Attr& value = at(name);
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  return expect<double>(value, name, "a number");
}
double Attrs::number(const std::string& name, double fallback) const { return has(name) ? number(name) : fallback; }

const std::string& Attrs::text(const std::string& name) const { return expect<std::string>(at(name), name, "a text"); }
std::string Attrs::text(const std::string& name, const std::string& fallback) const {
  return has(name) ? text(name) : fallback;
}

const std::vector<int64_t>& Attrs::integers(const std::string& name) const {
  return expect<std::vector<int64_t>>(at(name), name, "a list of integers");
}
std::vector<int64_t> Attrs::integers(const std::string& name, std::vector<int64_t> fallback) const {
  return has(name) ? integers(name) : fallback;
}

std::vector<double> Attrs::numbers(const std::string& name) const {
  const Attr& value = at(name);
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) return {integers->begin(), integers->end()};
  return expect<std::vector<double>>(value, name, "a list of numbers");
}
std::vector<double> Attrs::numbers(const std::string& name, std::vector<double> fallback) const {
  return has(name) ? numbers(name) : fallback;
}

const std::shared_ptr<const Tensor>& Attrs::tensor(const std::string& name) const {
  return expect<std::shared_ptr<const Tensor>>(at(name), name, "a tensor");
}

std::string to_string(const Attrs& attrs) {
  std::ostringstream out;
  out.precision(9);
  bool first = true;
  for (const auto& [name, value] : attrs.all()) {
    out << (first ? "" : ", ") << name << '=';
    std::visit(Printer{out}, value);
    first = false;
  }
  return out.str();
}

}  // namespace gyrus

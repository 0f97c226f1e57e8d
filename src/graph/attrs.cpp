#include "gyrus/attrs.h"

#include <cstdio>

#include "core/error.h"
#include "core/tensor.h"

namespace gyrus {
namespace {

template <class T>
const T& expect(const Attr& value, const std::string& name, const char* what) {
  if (const T* typed = std::get_if<T>(&value)) return *typed;
  fail(ErrorCode::InvalidGraph, "attribute", "'", name, "' is not ", what);
}

std::string text_of(int64_t value) { return std::to_string(value); }
std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

struct Printer {
  std::string operator()(int64_t v) const { return text_of(v); }
  std::string operator()(double v) const { return text_of(v); }
  std::string operator()(const std::string& v) const { return '"' + v + '"'; }
  template <class T>
  std::string operator()(const std::vector<T>& v) const {
    std::string text = "[";
    for (size_t i = 0; i < v.size(); ++i) text += (i ? "," : "") + text_of(v[i]);
    return text + ']';
  }
  std::string operator()(const std::shared_ptr<const Tensor>& v) const {
    return to_string(v->dtype) + to_string(v->shape);
  }
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
std::vector<int64_t> Attrs::integers(const std::string& name, const std::vector<int64_t>& fallback) const {
  return has(name) ? integers(name) : fallback;
}

std::vector<double> Attrs::numbers(const std::string& name) const {
  const Attr& value = at(name);
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) return {integers->begin(), integers->end()};
  return expect<std::vector<double>>(value, name, "a list of numbers");
}
std::vector<double> Attrs::numbers(const std::string& name, const std::vector<double>& fallback) const {
  return has(name) ? numbers(name) : fallback;
}

const std::shared_ptr<const Tensor>& Attrs::tensor(const std::string& name) const {
  return expect<std::shared_ptr<const Tensor>>(at(name), name, "a tensor");
}

std::string to_string(const Attrs& attrs) {
  std::string text;
  for (const auto& [name, value] : attrs.all())
    text += (text.empty() ? "" : ", ") + name + '=' + std::visit(Printer{}, value);
  return text;
}

}  // namespace gyrus

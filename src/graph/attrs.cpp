#include "graph/attrs.h"

#include "core/error.h"

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
  void operator()(const std::vector<int64_t>& v) const {
    out << '[';
    for (size_t i = 0; i < v.size(); ++i) out << (i ? "," : "") << v[i];
    out << ']';
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
std::vector<int64_t> Attrs::integers(const std::string& name, std::vector<int64_t> fallback) const {
  return has(name) ? integers(name) : fallback;
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

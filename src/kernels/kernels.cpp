#include "kernels/kernels.h"

#include "core/error.h"

namespace gyrus {
namespace {

constexpr std::string_view kOpen = "{{";
constexpr std::string_view kClose = "}}";

std::string_view kernel_text(std::string_view name) {
  for (const EmbeddedKernel& kernel : embedded_kernels())
    if (kernel.name == name) return kernel.text;
  fail(ErrorCode::InvalidGraph, "kernel", "no kernel file '", name, "'");
}

bool is_set(const std::string& name, const KernelVars& vars) {
  const auto it = vars.find(name);
  return it != vars.end() && !it->second.empty() && it->second != "0";
}

const std::string& value_of(const std::string& name, const KernelVars& vars) {
  const auto it = vars.find(name);
  if (it == vars.end()) fail(ErrorCode::InvalidGraph, "kernel", "template variable '", name, "' has no value");
  return it->second;
}

int count_of(const std::string& text, const KernelVars& vars) {
  const bool literal = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return std::stoi(literal ? text : value_of(text, vars));
}

// The text up to the tag {{/name}} that closes a block opened just before; moves `rest` behind it.
std::string_view take_block(std::string_view& rest, const std::string& name) {
  const std::string closing = "{{/" + name + "}}";
  size_t depth = 1;
  size_t at = 0;
  while (depth > 0) {
    const size_t tag = rest.find(kOpen, at);
    if (tag == std::string_view::npos) fail(ErrorCode::InvalidGraph, "kernel", "block '", name, "' is never closed");
    const size_t end = rest.find(kClose, tag);
    const std::string_view inner = rest.substr(tag + 2, end - tag - 2);
    const bool opens = (inner[0] == '#' || inner[0] == '^')
                           ? inner.substr(1) == name
                           : inner[0] == '@' && inner.substr(1, inner.find('=') - 1) == name;
    if (opens) ++depth;
    if (inner[0] == '/' && inner.substr(1) == name) --depth;
    at = end + 2;
    if (depth == 0) {
      const std::string_view block = rest.substr(0, tag);
      rest.remove_prefix(at);
      return block;
    }
  }
  return {};
}

void expand(std::string_view rest, const KernelVars& vars, std::string& out) {
  while (true) {
    const size_t tag = rest.find(kOpen);
    if (tag == std::string_view::npos) {
      out += rest;
      return;
    }
    out += rest.substr(0, tag);
    const size_t end = rest.find(kClose, tag);
    if (end == std::string_view::npos) fail(ErrorCode::InvalidGraph, "kernel", "a template tag is never closed");
    const std::string inner(rest.substr(tag + 2, end - tag - 2));
    rest.remove_prefix(end + 2);
    const std::string name = inner.substr(1);
    if (inner[0] == '>') {
      expand(kernel_text(name), vars, out);
    } else if (inner[0] == '#' || inner[0] == '^') {
      const std::string_view block = take_block(rest, name);
      if (is_set(name, vars) == (inner[0] == '#')) expand(block, vars, out);
    } else if (inner[0] == '@') {
      const size_t equals = name.find('=');
      const std::string variable = name.substr(0, equals);
      const int count = count_of(name.substr(equals + 1), vars);
      const std::string_view block = take_block(rest, variable);
      KernelVars inside = vars;
      for (int i = 0; i < count; ++i) {
        inside[variable] = std::to_string(i);
        expand(block, inside, out);
      }
    } else {
      out += value_of(inner, vars);
    }
  }
}

}  // namespace

std::string expand_template(std::string_view text, const KernelVars& vars) {
  std::string out;
  expand(text, vars, out);
  return out;
}

std::string expand_kernel(std::string_view name, const KernelVars& vars) {
  return expand_template(kernel_text(name), vars);
}

}  // namespace gyrus

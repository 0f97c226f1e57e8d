#include "kernels/kernels.h"

#include <charconv>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "core/error.h"

namespace gyrus {
namespace {

constexpr std::string_view kOpen = "{{";
constexpr std::string_view kClose = "}}";
constexpr size_t kMostIncludes = 8;      // files inside files
constexpr uint32_t kMostRepeats = 4096;  // of a loop: more is a mistake, not a kernel

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

uint32_t count_of(const std::string& text, const KernelVars& vars) {
  const bool literal = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  const std::string& number = literal ? text : value_of(text, vars);
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), count);
  if (error != std::errc() || end != number.data() + number.size() || count > kMostRepeats)
    fail(ErrorCode::InvalidGraph, "kernel", "'", number, "' is no count of a loop; expected 0 to ", kMostRepeats);
  return count;
}

// A tag {{…}} of a template: the text before it, what is inside, and what follows.
struct Tag {
  std::string_view before, inner, rest;
};

// The first tag, or nothing where the text holds none.
std::optional<Tag> next_tag(std::string_view text) {
  const size_t open = text.find(kOpen);
  if (open == std::string_view::npos) return {};
  const size_t close = text.find(kClose, open);
  if (close == std::string_view::npos) fail(ErrorCode::InvalidGraph, "kernel", "a template tag is never closed");
  const std::string_view inner = text.substr(open + 2, close - open - 2);
  if (inner.empty()) fail(ErrorCode::InvalidGraph, "kernel", "a template tag is empty");
  return Tag{text.substr(0, open), inner, text.substr(close + 2)};
}

// The name of the block that a tag opens, or nothing where it opens none.
std::string_view opened_by(std::string_view inner) {
  if (inner[0] == '#' || inner[0] == '^') return inner.substr(1);
  if (inner[0] == '@') return inner.substr(1, inner.find('=') - 1);
  return {};
}

// The text up to the tag {{/name}} that closes a block opened just before; moves `rest` behind it.
std::string_view take_block(std::string_view& rest, std::string_view name) {
  const std::string_view all = rest;
  for (size_t depth = 1;;) {
    const std::optional<Tag> tag = next_tag(rest);
    if (!tag) fail(ErrorCode::InvalidGraph, "kernel", "block '", name, "' is never closed");
    rest = tag->rest;
    if (opened_by(tag->inner) == name) ++depth;
    if (tag->inner[0] == '/' && tag->inner.substr(1) == name && --depth == 0)
      return all.substr(0, static_cast<size_t>(tag->before.data() + tag->before.size() - all.data()));
  }
}

void expand(std::string_view rest, const KernelVars& vars, size_t depth, std::string& out);

// {{@name=count}} … {{/name}}
void expand_loop(const std::string& loop, std::string_view& rest, const KernelVars& vars, size_t depth,
                 std::string& out) {
  const size_t equals = loop.find('=');
  if (equals == std::string::npos)
    fail(ErrorCode::InvalidGraph, "kernel", "the loop '", loop, "' has no count; expected name=count");
  const std::string variable = loop.substr(0, equals);
  const uint32_t count = count_of(loop.substr(equals + 1), vars);
  const std::string_view block = take_block(rest, variable);
  KernelVars inside = vars;
  for (uint32_t i = 0; i < count; ++i) {
    inside[variable] = std::to_string(i);
    expand(block, inside, depth, out);
  }
}

// {{>file}} or {{>file name=value}}
void expand_include(const std::string& include, const KernelVars& vars, size_t depth, std::string& out) {
  const size_t space = include.find(' ');
  if (space == std::string::npos) return expand(kernel_text(include), vars, depth + 1, out);
  const size_t equals = include.find('=', space);
  if (equals == std::string::npos)
    fail(ErrorCode::InvalidGraph, "kernel", "the include '", include, "' sets nothing; expected name=value");
  KernelVars inside = vars;
  const std::string value = include.substr(equals + 1);
  const bool literal = !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
  inside[include.substr(space + 1, equals - space - 1)] = literal ? value : value_of(value, vars);
  expand(kernel_text(include.substr(0, space)), inside, depth + 1, out);
}

void expand(std::string_view rest, const KernelVars& vars, size_t depth, std::string& out) {
  if (depth > kMostIncludes) fail(ErrorCode::InvalidGraph, "kernel", "kernel files include each other in a circle");
  while (const std::optional<Tag> tag = next_tag(rest)) {
    out += tag->before;
    rest = tag->rest;
    const std::string name(tag->inner.substr(1));
    switch (tag->inner[0]) {
      case '>': expand_include(name, vars, depth, out); break;
      case '@': expand_loop(name, rest, vars, depth, out); break;
      case '#':
      case '^': {
        const std::string_view block = take_block(rest, name);
        if (is_set(name, vars) == (tag->inner[0] == '#')) expand(block, vars, depth, out);
        break;
      }
      case '/': fail(ErrorCode::InvalidGraph, "kernel", "block '", name, "' is closed but not open");
      default: out += value_of(std::string(tag->inner), vars);
    }
  }
  out += rest;
}

// A function of elementwise.wgsl within a text: [begin, end) with the comment above it.
struct LibraryFunction {
  std::string name;
  size_t begin = 0, end = 0;
};

constexpr std::string_view kLibraryPrefix = "act_";

std::vector<LibraryFunction> library_functions(const std::string& text) {
  const std::string opening = cat("\nfn ", kLibraryPrefix);
  std::vector<LibraryFunction> found;
  for (size_t at = text.find(opening); at != std::string::npos; at = text.find(opening, at + 1)) {
    LibraryFunction function;
    function.name = text.substr(at + 4, text.find('(', at) - at - 4);
    function.begin = at + 1;
    function.end = text.find("\n}\n", at) + 3;
    for (size_t line = at; line != std::string::npos && line > 0;) {
      const size_t start = text.rfind('\n', line - 1) + 1;
      if (text.compare(start, 2, "//") != 0) break;
      function.begin = start;
      line = start == 0 ? 0 : start - 1;
    }
    if (function.end < text.size() && text[function.end] == '\n') ++function.end;
    found.push_back(std::move(function));
  }
  return found;
}

// The names of library functions that a text calls.
std::set<std::string> library_calls(std::string_view text) {
  std::set<std::string> calls;
  for (size_t at = text.find(kLibraryPrefix); at != std::string_view::npos; at = text.find(kLibraryPrefix, at + 1))
    calls.emplace(text.substr(at, text.find('(', at) - at));
  return calls;
}

// The text without those functions of elementwise.wgsl that nothing calls.
std::string without_unused(const std::string& text) {
  const std::vector<LibraryFunction> functions = library_functions(text);
  if (functions.empty()) return text;
  std::string rest;
  size_t at = 0;
  for (const LibraryFunction& function : functions) {
    rest += text.substr(at, function.begin - at);
    at = function.end;
  }
  rest += text.substr(at);
  std::set<std::string> used = library_calls(rest);
  // Functions call only those above them.
  for (size_t i = functions.size(); i-- > 0;)
    if (used.count(functions[i].name))
      used.merge(
          library_calls(std::string_view(text).substr(functions[i].begin, functions[i].end - functions[i].begin)));
  std::string kept;
  at = 0;
  for (const LibraryFunction& function : functions) {
    kept += text.substr(at, function.begin - at);
    if (used.count(function.name)) kept += text.substr(function.begin, function.end - function.begin);
    at = function.end;
  }
  return kept + text.substr(at);
}

}  // namespace

std::string expand_template(std::string_view text, const KernelVars& vars) {
  std::string out;
  expand(text, vars, 0, out);
  return out;
}

std::string expand_kernel(std::string_view name, const KernelVars& vars) {
  // A network asks for the same few texts hundreds of times. Not one map a thread: modules for pages, which are linked
  // without threads from objects that are made for them, have no thread_local variables.
  constexpr size_t kMostKept = 64;
  static std::mutex mutex;
  static std::map<std::pair<std::string, KernelVars>, std::string> kept;
  std::pair<std::string, KernelVars> key(name, vars);
  {
    const std::lock_guard lock(mutex);
    const auto found = kept.find(key);
    if (found != kept.end()) return found->second;
  }
  std::string text = without_unused(expand_template(kernel_text(name), vars));
  const std::lock_guard lock(mutex);
  if (kept.size() >= kMostKept) kept.clear();
  kept.emplace(std::move(key), text);
  return text;
}

}  // namespace gyrus

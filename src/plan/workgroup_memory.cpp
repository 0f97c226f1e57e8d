#include "plan/workgroup_memory.h"

#include <charconv>

#include "core/tensor.h"

namespace gyrus {
namespace {

constexpr std::string_view kDeclaration = "var<workgroup>";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

// The text between "prefix<" and the closing ">".
std::optional<std::string_view> argument(std::string_view type, std::string_view prefix) {
  if (!type.starts_with(prefix) || !type.ends_with('>')) return {};
  type.remove_prefix(prefix.size());
  if (!type.starts_with('<')) return {};
  return trimmed(type.substr(1, type.size() - 2));
}

std::optional<uint64_t> literal(std::string_view text) {
  if (text.ends_with('u')) text.remove_suffix(1);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

struct TypeSize {
  uint64_t bytes = 0;
  uint64_t alignment = 4;
};

std::optional<TypeSize> size_of(std::string_view type) {
  type = trimmed(type);
  if (type == "f32" || type == "u32" || type == "i32") return TypeSize{4, 4};
  if (const auto inner = argument(type, "atomic")) return size_of(*inner);
  if (argument(type, "vec2")) return TypeSize{8, 8};
  if (argument(type, "vec3")) return TypeSize{12, 16};
  if (argument(type, "vec4")) return TypeSize{16, 16};
  const auto inner = argument(type, "array");
  const size_t comma = inner ? inner->rfind(',') : std::string_view::npos;
  if (comma == std::string_view::npos) return {};
  const auto element = size_of(inner->substr(0, comma));
  const auto count = literal(trimmed(inner->substr(comma + 1)));
  if (!element || !count) return {};
  return TypeSize{*count * round_up(element->bytes, element->alignment), element->alignment};
}

}  // namespace

std::optional<uint64_t> workgroup_bytes(std::string_view wgsl) {
  uint64_t sum = 0;
  for (size_t at = wgsl.find(kDeclaration); at != std::string_view::npos; at = wgsl.find(kDeclaration, at + 1)) {
    const size_t colon = wgsl.find(':', at);
    const size_t end = wgsl.find(';', at);
    if (colon == std::string_view::npos || end == std::string_view::npos || colon > end) return {};
    const auto size = size_of(wgsl.substr(colon + 1, end - colon - 1));
    if (!size) return {};
    sum += round_up(size->bytes, 16);
  }
  return sum;
}

}  // namespace gyrus

// Packed maps: elementwise work over quads of channels; the text is generated, because fusion makes it.
#include "core/error.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

std::string packed_read(const PackedOperand& operand, size_t k, bool in_place) {
  const std::string array = in_place ? "out" : cat("in", k);
  const std::string shift = cat("P.", array, "_shift");
  const auto unpacked = [&](const std::string& index) {
    return cat("  let raw_", operand.name, " = ", array, "[", index, " + ", shift, "];\n  let ", operand.name, " = ",
               unpack_unit(*operand.storage, "raw_" + operand.name), ";\n");
  };
  switch (operand.access) {
    case PackedOperand::Access::Same: return unpacked("unit");
    case PackedOperand::Access::Channel: return unpacked(operand.per_image ? "image * kQuads + quad" : "quad");
    case PackedOperand::Access::Image: {
      std::string text;
      for (uint32_t row = 0; row < operand.rows; ++row)
        text += cat("  let ", operand.name, row, " = ", array, "[(image * kQuads + quad) * ", operand.rows, "u + ", row,
                    "u + ", shift, "];\n");
      return text;
    }
    case PackedOperand::Access::Scalar:
      return cat("  let ", operand.name, " = vec4<", scalar_type(operand.storage->dtype), ">(", array, "[", shift,
                 "]);\n");
  }
  return {};
}

class PackedMapEmitter {
 public:
  PackedMapEmitter(Lowering& lowering, const PackedMapSpec& spec)
      : lowering_(lowering), spec_(spec), bound_(spec.operands.size()) {}

  void run() {
    for (const Window& window : windows(*spec_.out, 0, spec_.out->units, lowering_.limits())) {
      out_ = window;
      bind(0, window.first, window.first + window.count);
    }
  }

 private:
  bool in_place(size_t k) const { return spec_.operands[k].storage == spec_.out; }

  void bind(size_t k, uint64_t begin, uint64_t end) {
    if (k == spec_.operands.size()) return emit(begin, end);
    const PackedOperand& operand = spec_.operands[k];
    if (in_place(k)) return bind(k + 1, begin, end);
    if (operand.access != PackedOperand::Access::Same) {
      bound_[k] = whole_window(*operand.storage, lowering_.limits(), spec_.label);
      return bind(k + 1, begin, end);
    }
    for (const Window& window : windows(*operand.storage, begin, end - begin, lowering_.limits())) {
      bound_[k] = window;
      bind(k + 1, window.first, window.first + window.count);
    }
  }

  void emit(uint64_t begin, uint64_t end) {
    const uint64_t units = end - begin;
    Kernel k(lowering_, "map_packed", spec_.label);
    k.name(spec_.name).workgroup(128).param("begin", begin).param("units", units);
    Cost cost{static_cast<double>(4 * units) * spec_.flops_per_element,
              static_cast<double>(units * spec_.out->unit_bytes())};
    std::string reads;
    for (size_t i = 0; i < bound_.size(); ++i) {
      const PackedOperand& operand = spec_.operands[i];
      if (!in_place(i)) k.read(cat("in", i), *operand.storage, bound_[i]);
      reads += packed_read(operand, i, in_place(i));
      if (operand.access == PackedOperand::Access::Same)
        cost.bytes += static_cast<double>(units * operand.storage->unit_bytes());
    }
    k.write("out", *spec_.out, out_).checks_stored();
    const bool mask = spec_.channels % 4 != 0 && !spec_.keeps_zero;
    if (mask) k.param("tail", spec_.channels % 4);
    k.flag("mask", mask).flag("indexed", spec_.indexed);
    k.literal("plane_units", spec_.out->plane_units)
        .literal("quads", static_cast<uint64_t>(ceil_div(spec_.channels, 4)));
    k.literal("image_units", spec_.out->units / static_cast<uint64_t>(spec_.images));
    k.text("statements", reads + spec_.statements).text("result", spec_.result).text("title", spec_.name);
    k.text("store", k.stored(*spec_.out, "y")).text("T", "vec4<f32>").text("U", "vec4<u32>");
    if (spec_.indexed) k.literal("channels", static_cast<uint64_t>(spec_.channels));
    k.dispatch((units + k.workgroup() - 1) / k.workgroup(), cost);
  }

  Lowering& lowering_;
  const PackedMapSpec& spec_;
  std::vector<Window> bound_;
  Window out_;
};

}  // namespace

void emit_packed_map(Lowering& lowering, const PackedMapSpec& spec) { PackedMapEmitter(lowering, spec).run(); }

}  // namespace gyrus

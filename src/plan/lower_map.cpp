// Plain and packed maps: kernels whose text is generated, because fusion makes them.
#include <algorithm>

#include "core/error.h"
#include "kernels/kernels.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

// How many elements of a dtype a 4-byte word holds.
uint32_t per_word(DType dtype) { return static_cast<uint32_t>(4 / byte_size(dtype)); }

// A bound operand and whether reads of it must be checked against its window.
struct Bound {
  Window window;
  bool checked = false;
};

// The function that reads element i of operand k, whatever its dtype.
std::string read_function(size_t k, const Storage& s, bool checked) {
  std::string text = cat("fn read", k, "(i: u32) -> ", scalar_type(s.dtype), " {\n");
  if (checked)
    text += cat("  if (i - P.in", k, "_begin >= P.in", k, "_count) {\n    covered = false;\n    return ",
                scalar_type(s.dtype), "(0);\n  }\n");
  text += cat("  let at = i + P.in", k, "_shift;\n");
  const std::string array = cat("in", k);
  if (s.dtype == DType::U8)
    text += "  return (" + array + "[at / 4u] >> (at % 4u * 8u)) & 255u;\n";
  else if (s.dtype == DType::F16)
    text += "  return unpack2x16float(" + array + "[at / 2u])[at % 2u];\n";
  else
    text += "  return " + array + "[at];\n";
  return text + "}\n";
}

std::string coordinates(const std::vector<int64_t>& dims) {
  std::string text = "  var rest = o;\n";
  for (size_t axis = dims.size(); axis-- > 0;) {
    const auto extent = std::max<int64_t>(dims[axis], 1);
    text += cat("  let c", axis, " = rest % ", extent, "u;\n  rest = rest / ", extent, "u;\n");
  }
  return text;
}

std::string element_function(const MapSpec& spec) {
  std::string text = cat("fn element(o: u32) -> ", scalar_type(spec.out->dtype), " {\n");
  const bool needs_coordinates = std::any_of(spec.operands.begin(), spec.operands.end(), [](const MapOperand& operand) {
    return !operand.index.empty() || !operand.valid.empty();
  });
  if (needs_coordinates) text += coordinates(spec.dims);
  for (size_t k = 0; k < spec.operands.size(); ++k) {
    const MapOperand& operand = spec.operands[k];
    const std::string read = cat("read", k, "(", operand.index.empty() ? "o" : operand.index, ")");
    if (operand.valid.empty()) {
      text += cat("  let ", operand.name, " = ", read, ";\n");
      continue;
    }
    text += cat("  var ", operand.name, " = ", scalar_type(operand.storage->dtype), "(",
                operand.fill.empty() ? "0" : operand.fill, ");\n  if (", operand.valid, ") {\n    ", operand.name,
                " = ", read, ";\n  }");
    text += operand.fill.empty() ? " else {\n    covered = false;\n  }\n" : "\n";
  }
  return text + spec.statements + "  return " + spec.result + ";\n}\n";
}

std::string insert_element(DType dtype) {
  if (dtype == DType::U8) return "word = (word & ~(255u << (e * 8u))) | ((value & 255u) << (e * 8u));";
  if (dtype == DType::F16)
    return "word = (word & ~(65535u << (e * 16u))) | ((pack2x16float(vec2<f32>(value, 0.0)) & 65535u) << (e * 16u));";
  return "word = value;";
}

// The whole text of a plain map's kernel.
std::string map_text(const MapSpec& spec, const std::vector<Bound>& bound, const Params& params, uint32_t wg) {
  KernelVars vars;
  std::string bindings;
  std::string reads;
  for (size_t k = 0; k < spec.operands.size(); ++k) {
    bindings += declare_binding(k + 1, cat("in", k), array_type(*spec.operands[k].storage), false);
    reads += read_function(k, *spec.operands[k].storage, bound[k].checked);
  }
  bindings += declare_binding(spec.operands.size() + 1, "out", array_type(*spec.out), true);
  vars["name"] = spec.name;
  vars["params"] = params.declaration();
  vars["bindings"] = bindings;
  vars["functions"] = reads + element_function(spec);
  vars["word_type"] = array_type(*spec.out);
  vars["per_word"] = std::to_string(per_word(spec.out->dtype));
  vars["insert"] = insert_element(spec.out->dtype);
  vars["wg"] = std::to_string(wg);
  vars["T"] = "f32";
  return expand_kernel("map", vars);
}

class MapEmitter {
 public:
  MapEmitter(Lowering& lowering, const MapSpec& spec)
      : lowering_(lowering), spec_(spec), bound_(spec.operands.size()) {}

  void run() {
    const Storage& out = *spec_.out;
    for (const Window& window : windows(out, 0, out.units, lowering_.limits())) {
      out_ = window;
      bind(0, window.first, window.first + window.count);
    }
  }

 private:
  // Binds operand k for the result's range [begin, end) and goes on to the next; all bound, it dispatches.
  void bind(size_t k, uint64_t begin, uint64_t end) {
    if (k == spec_.operands.size()) return emit(begin, end);
    const MapOperand& operand = spec_.operands[k];
    const Storage& source = *operand.storage;
    const Limits& limits = lowering_.limits();
    if (operand.index.empty() && operand.valid.empty()) {
      // The same element: the range of the result is narrowed to what each window holds.
      for (const Window& window : windows(source, begin, end - begin, limits)) {
        bound_[k] = {window, false};
        bind(k + 1, window.first, window.first + window.count);
      }
      return;
    }
    const std::vector<Window> all = windows(source, 0, source.units, limits);
    for (const Window& window : all) {
      bound_[k] = {window, all.size() > 1};
      bind(k + 1, begin, end);
    }
  }

  void emit(uint64_t begin, uint64_t end) {
    const uint32_t words_per = per_word(spec_.out->dtype);
    DispatchSpec d;
    d.name = spec_.name;
    d.label = spec_.label;
    d.workgroup = lowering_.workgroup(64);
    d.params = PlanBuilder::begin_params();
    const uint64_t first_word = begin / words_per;
    const uint64_t words = (end + words_per - 1) / words_per - first_word;
    d.params.add("begin", begin);
    d.params.add("end", end);
    d.params.add("first_word", first_word);
    d.params.add("words", words);
    // Windows of narrow types start on whole words, so the distance is whole words too.
    d.params.add("word_shift", (static_cast<int64_t>(out_.skip) - static_cast<int64_t>(out_.first)) / words_per);
    for (size_t k = 0; k < bound_.size(); ++k) {
      const Window& window = bound_[k].window;
      d.params.add(cat("in", k, "_shift"), window.skip - window.first);
      d.params.add(cat("in", k, "_begin"), window.first);
      d.params.add(cat("in", k, "_count"), window.count);
      d.reads.push_back(window.range);
      d.bytes += static_cast<double>(std::min(window.count, end - begin) * spec_.operands[k].storage->unit_bytes());
    }
    d.writes.push_back(out_.range);
    d.groups = (words + d.workgroup - 1) / d.workgroup;
    d.flops = static_cast<double>(end - begin) * spec_.flops_per_element;
    d.bytes += static_cast<double>((end - begin) * spec_.out->unit_bytes());
    d.wgsl = map_text(spec_, bound_, d.params, d.workgroup);
    lowering_.builder().dispatch(d);
  }

  Lowering& lowering_;
  const MapSpec& spec_;
  std::vector<Bound> bound_;
  Window out_;
};

std::string packed_read(const PackedOperand& operand, size_t k, bool in_place) {
  const Storage& s = *operand.storage;
  const std::string array = in_place ? "out" : cat("in", k);
  switch (operand.access) {
    case PackedOperand::Access::Same: {
      const std::string raw = cat("raw_", operand.name);
      return cat("  let ", raw, " = ", array, "[unit + P.in", k, "_shift];\n  let ", operand.name, " = ",
                 unpack_unit(s, raw), ";\n");
    }
    case PackedOperand::Access::Channel:
      return cat("  let raw_", operand.name, " = ", array, "[quad + P.in", k, "_shift];\n  let ", operand.name, " = ",
                 unpack_unit(s, "raw_" + operand.name), ";\n");
    case PackedOperand::Access::Image: {
      std::string text;
      for (uint32_t row = 0; row < operand.rows; ++row)
        text += cat("  let ", operand.name, row, " = ", array, "[(unit / kImageUnits * kQuads + quad) * ", operand.rows,
                    "u + ", row, "u + P.in", k, "_shift];\n");
      return text;
    }
    case PackedOperand::Access::Scalar:
      return cat("  let ", operand.name, " = vec4<f32>(", array, "[P.in", k, "_shift]);\n");
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
    const Storage& source = *operand.storage;
    if (in_place(k)) {
      bound_[k] = out_;
      return bind(k + 1, begin, end);
    }
    if (operand.access == PackedOperand::Access::Same) {
      for (const Window& window : windows(source, begin, end - begin, lowering_.limits())) {
        bound_[k] = window;
        bind(k + 1, window.first, window.first + window.count);
      }
      return;
    }
    if (!fits_window(source, 0, source.units, lowering_.limits()))
      fail(ErrorCode::OverLimits, spec_.label, "per-channel table of ", source.bytes(),
           " bytes does not fit a binding");
    bound_[k] = window(source, 0, source.units, lowering_.limits());
    bind(k + 1, begin, end);
  }

  void emit(uint64_t begin, uint64_t end) {
    DispatchSpec d;
    d.name = spec_.name;
    d.label = spec_.label;
    d.workgroup = lowering_.workgroup(128);
    d.params = PlanBuilder::begin_params();
    d.params.add("begin", begin);
    d.params.add("units", end - begin);
    d.params.add("out_shift", out_.skip - out_.first);
    std::string bindings;
    std::string reads;
    for (size_t k = 0; k < bound_.size(); ++k) {
      d.params.add(cat("in", k, "_shift"), bound_[k].skip - bound_[k].first);
      if (!in_place(k)) {
        d.reads.push_back(bound_[k].range);
        bindings += declare_binding(d.reads.size(), cat("in", k), array_type(*spec_.operands[k].storage), false);
      }
      reads += packed_read(spec_.operands[k], k, in_place(k));
      if (spec_.operands[k].access == PackedOperand::Access::Same)
        d.bytes += static_cast<double>((end - begin) * spec_.operands[k].storage->unit_bytes());
    }
    bindings += declare_binding(d.reads.size() + 1, "out", array_type(*spec_.out), true);
    d.writes.push_back(out_.range);
    d.groups = (end - begin + d.workgroup - 1) / d.workgroup;
    d.flops = static_cast<double>(4 * (end - begin)) * spec_.flops_per_element;
    d.bytes += static_cast<double>((end - begin) * spec_.out->unit_bytes());
    d.wgsl = text(d, bindings, reads);
    lowering_.builder().dispatch(d);
  }

  std::string text(const DispatchSpec& d, const std::string& bindings, const std::string& reads) const {
    KernelVars vars;
    const bool mask = spec_.channels % 4 != 0 && !spec_.keeps_zero;
    vars["name"] = spec_.name;
    vars["params"] = d.params.declaration();
    vars["bindings"] = bindings;
    vars["statements"] = reads + spec_.statements;
    vars["result"] = spec_.result;
    vars["plane_units"] = std::to_string(spec_.out->plane_units);
    vars["image_units"] = std::to_string(spec_.out->units / static_cast<uint64_t>(spec_.images));
    vars["quads"] = std::to_string(ceil_div(spec_.channels, 4));
    vars["mask"] = mask ? lane_mask(spec_.channels) : "";
    vars["pack"] = pack_unit(*spec_.out, "y");
    vars["wg"] = std::to_string(d.workgroup);
    vars["T"] = "vec4<f32>";
    return expand_kernel("map_packed", vars);
  }

  Lowering& lowering_;
  const PackedMapSpec& spec_;
  std::vector<Window> bound_;
  Window out_;
};

}  // namespace

void emit_map(Lowering& lowering, const MapSpec& spec) { MapEmitter(lowering, spec).run(); }

void emit_packed_map(Lowering& lowering, const PackedMapSpec& spec) { PackedMapEmitter(lowering, spec).run(); }

}  // namespace gyrus

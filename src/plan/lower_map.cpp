// Plain maps: kernels whose text is generated, because fusion makes them.
#include <algorithm>

#include "core/error.h"
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
std::string read_function(size_t k, const std::string& array, const Storage& s, bool checked) {
  std::string text = cat("fn read", k, "(i: u32) -> ", scalar_type(s.dtype), " {\n");
  if (checked)
    text += cat("  if (i - P.in", k, "_begin >= P.in", k, "_count) {\n    covered = false;\n    return ",
                scalar_type(s.dtype), "(0);\n  }\n");
  return text + cat("  let at = i + P.", array, "_shift;\n  return ", element_text(s, array, "at"), ";\n}\n");
}

std::string coordinates(size_t rank) {
  std::string text = "  var rest = o;\n";
  for (size_t axis = rank; axis-- > 1;)
    text += cat("  let c", axis, " = rest % P.dim", axis, ";\n  rest = rest / P.dim", axis, ";\n");
  return text + (rank ? "  let c0 = rest;\n" : "");
}

std::string element_function(const MapSpec& spec) {
  std::string text = cat("fn element(o: u32) -> ", scalar_type(spec.out->dtype), " {\n");
  const bool needs_coordinates = std::any_of(spec.operands.begin(), spec.operands.end(), [](const MapOperand& operand) {
    return !operand.index.empty() || !operand.valid.empty();
  });
  if (needs_coordinates) text += coordinates(spec.dims.size());
  for (size_t k = 0; k < spec.operands.size(); ++k) {
    const MapOperand& operand = spec.operands[k];
    const std::string read = cat("read", k, "(", operand.index.empty() ? "o" : operand.index, ")");
    text += operand.check;
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

// `value` put into the word that holds it as its element e.
std::string insert_element(const Storage& out, const std::string& value) {
  if (out.dtype == DType::F16)
    return cat("word = insertBits(word, pack2x16float(vec2<f32>(", value, ", 0.0)), e * 16u, 16u);");
  if (byte_size(out.dtype) == 1) return cat("word = insertBits(word, ", value, ", e * 8u, 8u);");
  return cat("word = ", value, ";");
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
  // The operand is where the result goes: a thread reads its word before it writes it.
  bool in_place(size_t k) const { return spec_.operands[k].storage == spec_.out; }

  // Binds operand k for the result's range [begin, end) and goes on to the next; all bound, it dispatches.
  void bind(size_t k, uint64_t begin, uint64_t end) {
    if (k == spec_.operands.size()) return emit(begin, end);
    const MapOperand& operand = spec_.operands[k];
    const Storage& source = *operand.storage;
    const Limits& limits = lowering_.limits();
    if (in_place(k)) {
      bound_[k] = {out_, false};
      return bind(k + 1, begin, end);
    }
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
    const uint64_t first_word = begin / words_per;
    const uint64_t words = (end + words_per - 1) / words_per - first_word;
    Kernel k(lowering_, "map", spec_.label);
    k.name(spec_.name).workgroup(64);
    k.param("begin", begin).param("end", end).param("first_word", first_word).param("words", words);
    // Windows of narrow types start on whole words, so the distance is whole words too.
    k.param("word_shift", (static_cast<int64_t>(out_.skip) - static_cast<int64_t>(out_.first)) / words_per);
    for (size_t axis = 1; axis < spec_.dims.size(); ++axis)
      k.param(cat("dim", axis), std::max<int64_t>(1, spec_.dims[axis]));
    for (const auto& [name, value] : spec_.params) k.param(name, value);
    Cost cost{static_cast<double>(end - begin) * spec_.flops_per_element,
              static_cast<double>((end - begin) * spec_.out->unit_bytes())};
    std::string functions;
    for (size_t i = 0; i < bound_.size(); ++i) {
      const Storage& source = *spec_.operands[i].storage;
      const Window& window = bound_[i].window;
      const std::string array = in_place(i) ? "out" : cat("in", i);
      if (!in_place(i)) k.read(array, source, window);
      k.param(cat("in", i, "_begin"), window.first).param(cat("in", i, "_count"), window.count);
      functions += read_function(i, array, source, bound_[i].checked);
      cost.bytes += static_cast<double>(std::min(window.count, end - begin) * source.unit_bytes());
    }
    k.write("out", *spec_.out, out_);
    if (spec_.reports_index)
      k.reports(ReportKind::Index);
    else if (is_float(spec_.out->dtype))
      k.checks_stored();
    k.text("functions", functions + element_function(spec_)).constant("per_word", words_per);
    k.text("insert", insert_element(*spec_.out, k.stored(*spec_.out, "value"))).text("T", "f32").text("U", "u32");
    k.text("title", spec_.name);
    k.dispatch((words + k.workgroup() - 1) / k.workgroup(), cost);
  }

  Lowering& lowering_;
  const MapSpec& spec_;
  std::vector<Bound> bound_;
  Window out_;
};

}  // namespace

void emit_map(Lowering& lowering, const MapSpec& spec) { MapEmitter(lowering, spec).run(); }

bool suits_results(const Lowering& lowering, const MapSpec& spec, const std::vector<StoragePtr>& outs) {
  const Limits& limits = lowering.limits();
  const auto fits = [&](const Storage& s) { return fits_window(s, 0, s.units, limits); };
  if (lowering.options().check_finite || spec.reports_index) return false;
  size_t bindings = outs.size();
  for (const StoragePtr& out : outs)
    if (byte_size(out->dtype) != 4 || out->units == 0 || !fits(*out)) return false;
  for (const MapOperand& operand : spec.operands) {
    if (!operand.valid.empty() || !operand.check.empty() || !fits(*operand.storage)) return false;
    const bool in_place = std::find(outs.begin(), outs.end(), operand.storage) != outs.end();
    if (in_place && !operand.index.empty()) return false;
    bindings += in_place ? 0 : 1;
  }
  return bindings <= limits.max_storage_buffers_per_shader_stage;
}

void emit_results(Lowering& lowering, const MapSpec& spec, const std::vector<StoragePtr>& outs,
                  const std::vector<std::string>& results) {
  const uint64_t count = outs.front()->units;
  Kernel k(lowering, "map_results", spec.label);
  k.name(spec.name).workgroup(64).param("count", count);
  for (size_t axis = 1; axis < spec.dims.size(); ++axis)
    k.param(cat("dim", axis), std::max<int64_t>(1, spec.dims[axis]));
  for (const auto& [name, value] : spec.params) k.param(name, value);
  Cost cost{static_cast<double>(count) * spec.flops_per_element, 0};
  std::string functions, statements = coordinates(spec.dims.size());
  for (size_t i = 0; i < spec.operands.size(); ++i) {
    const MapOperand& operand = spec.operands[i];
    const auto out = std::find(outs.begin(), outs.end(), operand.storage);
    const bool in_place = out != outs.end();
    const std::string array = in_place ? cat("out", out - outs.begin()) : cat("in", i);
    if (!in_place) k.read(array, *operand.storage);
    functions += read_function(i, array, *operand.storage, false);
    statements += cat("  let ", operand.name, " = read", i, "(", operand.index.empty() ? "o" : operand.index, ");\n");
    cost.bytes += static_cast<double>(std::min(operand.storage->units, count) * operand.storage->unit_bytes());
  }
  statements += spec.statements;
  for (size_t r = 0; r < outs.size(); ++r) {
    k.write(cat("out", r), *outs[r]);
    statements += cat("  out", r, "[o + P.out", r, "_shift] = ", results[r], ";\n");
    cost.bytes += static_cast<double>(outs[r]->bytes());
  }
  k.text("functions", functions).text("statements", statements).text("title", spec.name);
  k.text("T", "f32").text("U", "u32");
  k.dispatch((count + k.workgroup() - 1) / k.workgroup(), cost);
}

void add_mapped(MapSpec& spec, StoragePtr storage, const std::string& name, const IndexMap& map) {
  MapOperand operand;
  operand.storage = std::move(storage);
  operand.name = name;
  // Wrapping u32 arithmetic: a negative offset is right once the sum is.
  operand.index = cat("P.", name, "_offset");
  spec.params.emplace_back(name + "_offset", map.offset);
  for (size_t axis = 0; axis < map.strides.size(); ++axis) {
    if (map.strides[axis] == 0) continue;
    operand.index += cat(" + c", axis, " * P.", name, "_stride", axis);
    spec.params.emplace_back(cat(name, "_stride", axis), map.strides[axis]);
  }
  const auto bound = [&](const char* what, const char* compare, size_t axis, int64_t value) {
    operand.valid += cat(operand.valid.empty() ? "" : " && ", "c", axis, compare, "P.", name, what, axis);
    spec.params.emplace_back(cat(name, what, axis), value);
  };
  for (size_t axis = 0; axis < map.lo.size(); ++axis) {
    if (map.lo[axis] > 0) bound("_lo", " >= ", axis, map.lo[axis]);
    if (map.hi[axis] < spec.dims[axis]) bound("_hi", " < ", axis, map.hi[axis]);
  }
  if (map.fill) {
    const bool floats = is_float(operand.storage->dtype);
    const uint32_t bits = bits_of(static_cast<float>(*map.fill));
    spec.params.emplace_back(name + "_fill", floats ? static_cast<int64_t>(bits) : static_cast<int64_t>(*map.fill));
    operand.fill = cat("bitcast<", scalar_type(operand.storage->dtype), ">(P.", name, "_fill)");
  }
  spec.operands.push_back(std::move(operand));
}

}  // namespace gyrus

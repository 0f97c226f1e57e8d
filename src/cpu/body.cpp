#include "cpu/body.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/tensor.h"
#include "ops/common.h"
#include "ops/elementwise.h"
#include "ops/fused.h"

namespace gyrus::cpu {
namespace {

Lane lane_of(DType dtype) {
  if (is_float(dtype)) return Lane::F32;
  return dtype == DType::I32 ? Lane::I32 : Lane::U32;
}

double value_of(Lane lane, const void* strip, int64_t i) {
  switch (lane) {
    case Lane::F32: return static_cast<const float*>(strip)[i];
    case Lane::I32: return static_cast<const int32_t*>(strip)[i];
    case Lane::U32: return static_cast<const uint32_t*>(strip)[i];
  }
  return 0;
}

template <class T>
T whole(double value) {
  if (std::isnan(value)) return 0;
  constexpr double lo = static_cast<double>(std::numeric_limits<T>::min());
  constexpr double hi = static_cast<double>(std::numeric_limits<T>::max());
  return value <= lo   ? std::numeric_limits<T>::min()
         : value >= hi ? std::numeric_limits<T>::max()
                       : static_cast<T>(value);
}

void put_value(Lane lane, void* strip, int64_t i, double value) {
  switch (lane) {
    case Lane::F32: static_cast<float*>(strip)[i] = static_cast<float>(value); break;
    case Lane::I32: static_cast<int32_t*>(strip)[i] = whole<int32_t>(value); break;
    case Lane::U32: static_cast<uint32_t*>(strip)[i] = whole<uint32_t>(value); break;
  }
}

template <class From, class To, class Convert>
void load_as(const Source& source, To* to, int64_t count, Convert convert) {
  const auto* from = reinterpret_cast<const From*>(source.data);
  if (source.stride == 0) {
    std::fill(to, to + count, convert(*from));
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i] = convert(from[i * source.stride]);
}

// Into a register; words are copied by their bits.
void load(DType dtype, const Source& source, float* to, int64_t count) {
  switch (dtype) {
    case DType::F16:
      if (source.stride == 1) return widen_halves(reinterpret_cast<const uint16_t*>(source.data), to, count);
      return load_as<uint16_t>(source, to, count, [](uint16_t h) { return half_to_float(h); });
    case DType::U8:
    case DType::Bool:
      return load_as<uint8_t>(source, reinterpret_cast<uint32_t*>(to), count, [](uint8_t b) { return uint32_t{b}; });
    case DType::I64: fail(ErrorCode::InvalidGraph, "cpu", "i64 reached a kernel; run the passes first");
    default: return load_as<float>(source, to, count, [](float f) { return f; });
  }
}

void store(DType dtype, const void* strip, std::byte* to, int64_t count) {
  if (dtype == DType::F16) {
    narrow_singles(static_cast<const float*>(strip), reinterpret_cast<uint16_t*>(to), count);
  } else if (dtype == DType::U8 || dtype == DType::Bool) {
    const auto* from = static_cast<const uint32_t*>(strip);
    for (int64_t i = 0; i < count; ++i) reinterpret_cast<uint8_t*>(to)[i] = static_cast<uint8_t>(from[i]);
  } else if (strip != to) {
    std::memcpy(to, strip, static_cast<size_t>(count) * 4);
  }
}

template <class From, class To>
void convert_strip(const StripCall& call) {
  const auto* from = static_cast<const From*>(call.in[0]);
  auto* to = static_cast<To*>(call.out);
  for (int64_t i = 0; i < call.count; ++i) to[i] = static_cast<To>(from[i]);
}

// Casts of integers that need no rounding but that of a single; null for others.
StripOp find_conversion(DType from, DType to) {
  const bool is_byte = from == DType::U8 || from == DType::Bool;
  if (to == DType::F32 && from == DType::I32) return convert_strip<int32_t, float>;
  if (to == DType::F32 && (is_byte || from == DType::U32)) return convert_strip<uint32_t, float>;
  if ((to == DType::I32 || to == DType::U32) && is_byte) return convert_strip<uint32_t, uint32_t>;
  return nullptr;
}

std::vector<DType> types_of(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<DType> types;
  for (ValueId id : ids) types.push_back(graph.type(id).dtype);
  return types;
}

}  // namespace

Body::Body(const std::vector<Node>& steps, const std::vector<ValueId>& results, const std::vector<DType>& operands,
           const std::vector<DType>& outputs)
    : operand_types_(operands), output_types_(outputs), results_(results) {
  std::vector<DType> types = operands;
  for (const Node& node : steps) {
    Step step;
    const OpDef& def = op(node.op);
    step.row = def.elementwise;
    step.inputs = node.inputs;
    step.numbers = row_numbers(*step.row, node.attrs);
    std::vector<TensorType> inputs;
    bool singles = true;
    for (ValueId id : node.inputs) {
      inputs.push_back({types.at(id), {}, Layout::Plain});
      step.in.push_back(lane_of(types[id]));
      singles = singles && step.in.back() == Lane::F32;
    }
    const DType made = def.infer(node, inputs).front().dtype;
    step.out = lane_of(made);
    // Halves are computed in singles. A cast to them rounds, which only the row itself does.
    const bool is_cast = step.row->name == "cast";
    if (singles && is_float(made) && !step.row->indexed && !(is_cast && made == DType::F16))
      step.fast = find_strip_op(step.row->name, step.numbers.data());
    else if (is_cast)
      step.fast = find_conversion(types[node.inputs[0]], made);
    types.push_back(made);
    steps_.push_back(std::move(step));
  }
  if (results_.empty()) results_ = {static_cast<ValueId>(steps_.empty() ? 0 : types.size() - 1)};
  direct_ = results_.size() == 1 && !steps_.empty() && results_[0] + 1 == types.size() && byte_size(outputs[0]) == 4;
}

Body Body::behind(const Graph& graph, const Node& node) {
  std::vector<DType> operands = {DType::F32};
  for (size_t i = own_inputs(node); i < node.inputs.size(); ++i) operands.push_back(graph.type(node.inputs[i]).dtype);
  return Body(node.body, node.results, operands, types_of(graph, node.outputs));
}

Body Body::of(const Graph& graph, const Node& node) {
  return Body(body_of(node), node.results, types_of(graph, node.inputs), types_of(graph, node.outputs));
}

void Body::run(const Source* sources, std::byte* const* sinks, int64_t count, int64_t first,
               Registers& registers) const {
  if (count <= kStrip) return run_strip(sources, sinks, count, first, registers);
  std::vector<Source> at(sources, sources + operand_types_.size());
  std::vector<std::byte*> to(sinks, sinks + results_.size());
  for (int64_t done = 0; done < count; done += kStrip) {
    const int64_t length = std::min(kStrip, count - done);
    run_strip(at.data(), to.data(), length, first + done, registers);
    for (size_t k = 0; k < at.size(); ++k)
      at[k].data += length * at[k].stride * static_cast<int64_t>(byte_size(operand_types_[k]));
    for (size_t k = 0; k < to.size(); ++k) to[k] += length * static_cast<int64_t>(byte_size(output_types_[k]));
  }
}

void Body::run_strip(const Source* sources, std::byte* const* sinks, int64_t count, int64_t first,
                     Registers& registers) const {
  const size_t operands = operand_types_.size();
  constexpr size_t kMost = 160;  // kMaxBodySteps twice and some
  const void* strips[kMost];
  if (register_count() > kMost) fail(ErrorCode::Unsupported, "body", "has more than ", kMost, " values");
  for (size_t k = 0; k < operands; ++k) {
    float* own = registers.data() + static_cast<int64_t>(k) * kStrip;
    strips[k] = own;
    // What lies as a register does is read where it is, unless a result may be written over it too early.
    if (byte_size(operand_types_[k]) == 4 && sources[k].stride == 1 && (direct_ || steps_.empty()) &&
        (results_.size() == 1))
      strips[k] = sources[k].data;
    else
      load(operand_types_[k], sources[k], own, count);
  }
  for (size_t j = 0; j < steps_.size(); ++j) {
    const Step& step = steps_[j];
    void* out = registers.data() + static_cast<int64_t>(operands + j) * kStrip;
    if (direct_ && j + 1 == steps_.size()) out = sinks[0];
    strips[operands + j] = out;
    StripCall call;
    call.out = out;
    call.count = count;
    call.numbers = step.numbers.data();
    if (step.fast) {
      for (size_t k = 0; k < step.inputs.size(); ++k) call.in[k] = strips[step.inputs[k]];
      step.fast(call);
      continue;
    }
    if (step.row->word && step.out != Lane::F32) {
      const auto* a = static_cast<const uint32_t*>(strips[step.inputs[0]]);
      const auto* b = static_cast<const uint32_t*>(strips[step.inputs[1]]);
      for (int64_t i = 0; i < count; ++i) static_cast<uint32_t*>(out)[i] = step.row->word(a[i], b[i]);
      continue;
    }
    double args[8];
    for (int64_t i = 0; i < count; ++i) {
      for (size_t k = 0; k < step.inputs.size(); ++k) args[k] = value_of(step.in[k], strips[step.inputs[k]], i);
      args[step.inputs.size()] = static_cast<double>(first + i);
      put_value(step.out, out, i, step.row->value(args, step.numbers.data()));
    }
  }
  for (size_t k = 0; k < results_.size(); ++k) store(output_types_[k], strips[results_[k]], sinks[k], count);
}

Spread::Spread(const Shape& shape, const std::vector<Shape>& operands) : count_(element_count(shape)) {
  std::vector<std::vector<int64_t>> wide;
  for (const Shape& operand : operands) wide.push_back(broadcast_strides(operand, shape));
  strides_.resize(operands.size());
  for (size_t a = 0; a < shape.size(); ++a) {
    if (shape[a] == 1) continue;
    bool joins = !shape_.empty();
    for (size_t k = 0; k < wide.size() && joins; ++k) joins = strides_[k].back() == wide[k][a] * shape[a];
    if (joins) {
      shape_.back() *= shape[a];
      for (size_t k = 0; k < wide.size(); ++k) strides_[k].back() = wide[k][a];
    } else {
      shape_.push_back(shape[a]);
      for (size_t k = 0; k < wide.size(); ++k) strides_[k].push_back(wide[k][a]);
    }
  }
  if (!shape_.empty()) return;
  shape_.push_back(1);
  for (auto& strides : strides_) strides.push_back(0);
}

Prepared prepare_elementwise(const Graph& graph, const Node& node, const KernelOptions&) {
  struct State {
    Body body;
    Spread spread;
    std::vector<DType> in, out;
  };
  std::vector<Shape> shapes;
  for (ValueId id : node.inputs) shapes.push_back(graph.type(id).shape);
  const auto state =
      std::make_shared<const State>(State{Body::of(graph, node), Spread(graph.type(node.outputs[0]).shape, shapes),
                                          types_of(graph, node.inputs), types_of(graph, node.outputs)});
  Prepared made;
  made.kernel = "elementwise";
  made.in_place = true;
  made.run = [state](const Places& at, ThreadPool& pool) {
    const int64_t count = state->spread.count();
    pool.parallel_for(ceil_div(count, kGrain), [&](int64_t chunk) {
      Body::Registers registers = state->body.registers();
      std::vector<Source> sources(at.inputs.size());
      std::vector<std::byte*> sinks(at.outputs.size());
      state->spread.rows(chunk * kGrain, std::min(count, (chunk + 1) * kGrain),
                         [&](int64_t first, int64_t length, const std::vector<int64_t>& offsets) {
                           for (size_t k = 0; k < sources.size(); ++k)
                             sources[k] = {at.inputs[k] + offsets[k] * static_cast<int64_t>(byte_size(state->in[k])),
                                           state->spread.stride(k)};
                           for (size_t k = 0; k < sinks.size(); ++k)
                             sinks[k] = at.outputs[k] + first * static_cast<int64_t>(byte_size(state->out[k]));
                           state->body.run(sources.data(), sinks.data(), length, first, registers);
                         });
    });
  };
  return made;
}

}  // namespace gyrus::cpu

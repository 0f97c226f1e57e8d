#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "gyrus/limits.h"
#include "gyrus/tensor.h"

// A plan: everything an executor needs to run a network through WebGPU, as plain data. No WebGPU type appears here.

namespace gyrus {

enum class BufferKind : uint8_t {
  Storage,  // storage binding, copy source and destination
  Weights,  // as Storage; filled once from Plan::weights
  Params,   // uniform binding; filled once from Plan::weights
};

struct PlanBuffer {
  std::string label;
  uint64_t size = 0;  // bytes, a multiple of 4
  BufferKind kind = BufferKind::Storage;
  uint64_t data_offset = 0;  // Weights and Params: where their `size` bytes start in Plan::weights
};

enum class BindingKind : uint8_t { ReadStorage, ReadWriteStorage, Uniform };

// A compute kernel. Bindings are numbered 0 … in group 0, in the order of `bindings`.
struct PlanKernel {
  std::string name;  // the family and variant, e.g. "conv_packed v4 o4 i4"; the key of profiles
  std::string wgsl;
  std::string entry = "main";
  std::array<uint32_t, 3> workgroup_size{1, 1, 1};
  std::vector<BindingKind> bindings;
};

// A range of a buffer, in bytes. Offsets keep the limits' alignment; sizes are multiples of 4.
struct BufferRange {
  uint32_t buffer = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
};

struct Dispatch {
  uint32_t kernel = 0;
  std::vector<BufferRange> bindings;  // one for each of the kernel's bindings
  std::array<uint32_t, 3> groups{1, 1, 1};
  std::string label;  // the node it belongs to
  double flops = 0;
  double bytes = 0;  // least traffic: every operand once
};

struct Copy {
  BufferRange from;
  BufferRange to;  // the same size
};

struct Clear {
  BufferRange range;
};

using Step = std::variant<Dispatch, Copy, Clear>;

// A piece of a tensor's bytes: [host_offset, host_offset + range.size) of the row-major host tensor (padded with
// zeros to a multiple of 4) lies in `range`.
struct Piece {
  uint64_t host_offset = 0;
  BufferRange range;
};

// A tensor that the caller gives or takes, row-major in its pieces.
struct PlanPort {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  std::vector<Piece> pieces;
};

struct Plan {
  Limits needs;           // the least limits under which the plan is valid
  Features features;      // what the kernels use
  std::string precision;  // "f32" or "f16"
  std::vector<PlanBuffer> buffers;
  std::vector<PlanKernel> kernels;
  std::vector<Step> steps;
  std::vector<PlanPort> inputs;
  std::vector<PlanPort> outputs;
  std::vector<PlanPort> captures;
  std::vector<std::byte> weights;  // the binary file: initial contents of Weights and Params buffers

  uint64_t peak_bytes() const;  // of all buffers; they all live as long as the plan is loaded
  double flops() const;
  double bytes() const;
};

// The JSON form; `weights` is written beside it as one binary file. parse_plan(to_json(p), p.weights) == p, and
// to_json gives the same bytes again. Throws InvalidInput on anything malformed or out of range.
std::string to_json(const Plan& plan);
Plan parse_plan(const std::string& json, std::vector<std::byte> weights);

}  // namespace gyrus

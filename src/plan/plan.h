#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gyrus/limits.h"
#include "gyrus/tensor.h"

// A plan: everything an executor needs to run a network through WebGPU, as plain data. No WebGPU type appears here.

namespace gyrus {

enum class BufferKind : uint8_t {
  Storage,    // storage binding, copy source and destination
  Weights,    // as Storage; filled once from Plan::weights
  Params,     // uniform binding; filled once from Plan::weights
  State,      // as Storage; a whole piece of one of Plan::states, owned by a Memory and kept between runs
  Arguments,  // uniform or read-only storage binding; holds Plan::arguments, written before every run; at most one
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
  uint32_t workgroup_bytes = 0;  // of workgroup memory, each variable rounded up to 16 as WebGPU counts them
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

// A tensor that lives in a Memory from run to run. Its pieces are whole State buffers in the order of the tensor's
// bytes, so that plans that cut a tensor in the same way can share it.
struct PlanState : PlanPort {
  std::optional<uint64_t> start;  // where its first contents stand in Plan::weights, padded as in pieces; else zeros
};

// A scalar that the caller gives for each run: 4 bytes in the Arguments buffer.
struct PlanArgument {
  std::string name;
  DType dtype = DType::F32;  // F32, I32 or U32
  double least = 0;          // the range of what may be given, ends included
  double most = 0;
  uint64_t offset = 0;  // bytes
};

enum class ReportKind : uint8_t {
  Index,   // an index out of range; words 1 and 2 of the report are the index (as i32) and the extent
  Finite,  // a value that is not finite
  Room,    // more is needed than there are places for; words 1 and 2 are the two numbers
};

// What a kernel may report, and the node that it means.
struct PlanReport {
  ReportKind kind = ReportKind::Index;
  std::string label;
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
  std::vector<PlanState> states;
  std::vector<PlanArgument> arguments;
  // 16 bytes of a Storage buffer that executors clear before a run and read after it. A kernel that finds something
  // wrong sets word 0 from 0 to 1 + the index of its report, and then words 1 to 3 to details.
  std::optional<BufferRange> report;
  std::vector<PlanReport> reports;  // empty without `report`
  std::vector<std::byte> weights;   // the binary file: first contents of Weights and Params buffers and of states

  uint64_t peak_bytes() const;  // of all buffers; they all live as long as the plan is loaded
  double flops() const;
  double bytes() const;
};

// The JSON form; `weights` is written beside it as one binary file. parse_plan(to_json(p), p.weights) == p, and
// to_json gives the same bytes again. Throws InvalidInput on anything malformed or out of range.
std::string to_json(const Plan& plan);
Plan parse_plan(const std::string& json, std::vector<std::byte> weights);

}  // namespace gyrus

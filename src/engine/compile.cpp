#include "engine/compile.h"

#include "core/error.h"
#include "core/limits.h"
#include "core/text.h"

namespace gyrus {
namespace {

// Bytes of the buffers that only this plan has.
uint64_t own_bytes(const Plan& plan) {
  uint64_t bytes = plan.peak_bytes();
  for (const PlanBuffer& buffer : plan.buffers)
    if (buffer.kind == BufferKind::State) bytes -= buffer.size;
  return bytes;
}

Compiled compile_as(const Model& model, const Shape& spatial, const NetworkOptions& network,
                    const CompileTarget& target, const PlanChoice& choice, const PassObserver& observer) {
  Compiled out;
  std::optional<WindowGraphs> graphs;
  if (model.onnx) graphs = window_graphs(model, spatial, network.output);
  out.before = graphs ? std::move(graphs->window) : network_graph(model, spatial, network);
  out.after = optimize(out.before, choice.halves ? Precision::F16 : Precision::F32, observer);
  CompileTarget cut = target;
  if (target.tuning.matrix == MatrixUse::On && !choice.halves)
    fail(ErrorCode::InvalidInput, "matrix",
         "matrix units multiply halves, which maps in f32 never go through; plan with f16");
  cut.limits = limits_for(choice, target.limits);
  if (target.kept)
    if (const auto kept = target.kept(cut, out.after)) cut.tuning.conv = *kept;
  out.plan = make_plan(out.after, cut, cut.tuning);
  if (graphs && graphs->finish)
    out.windowed = {make_plan(optimize(*graphs->finish, Precision::F32), cut, cut.tuning), std::move(graphs->starts)};
  out.decision.plan = choice;
  return out;
}

void check_memory(const Model& model, const Shape& spatial, const Compiled& made, const CompileTarget& target) {
  if (!target.memory || !target.memory->certain || made.peak_bytes() <= target.memory->bytes) return;
  const Hint first = made.plan.precision == "f16" ? Hint::SmallerModel : Hint::HalfPrecision;
  fail(ErrorCode::OverLimits, {first, Hint::SmallerVolume}, model.name, "needs ", bytes_text(made.peak_bytes()),
       " of GPU memory for ", extents_text(spatial), " voxels in ", made.plan.precision, ", but ", target.name, " has ",
       bytes_text(target.memory->bytes));
}

}  // namespace

uint64_t Compiled::peak_bytes() const { return plan.peak_bytes() + (windowed ? own_bytes(windowed->finish) : 0); }

double Compiled::flops() const {
  return windowed ? plan.flops() * static_cast<double>(windowed->starts.size()) + windowed->finish.flops()
                  : plan.flops();
}

CompileTarget default_target() { return {default_limits(), "a device with WebGPU's default limits", {}, std::nullopt}; }

PrecisionChoice parse_precision(const std::string& text) {
  if (text == "f32") return PrecisionChoice::F32;
  if (text == "f16") return PrecisionChoice::F16;
  if (text == "auto") return PrecisionChoice::Auto;
  fail(ErrorCode::InvalidInput, "precision", "\"", text, "\" is none of f32, f16, auto");
}

MatrixUse parse_matrix(const std::string& text) {
  if (text == "auto") return MatrixUse::Auto;
  if (text == "on") return MatrixUse::On;
  if (text == "off") return MatrixUse::Off;
  fail(ErrorCode::InvalidInput, "matrix", "\"", text, "\" is none of auto, on, off");
}

Compiled compile(const Model& model, const Shape& spatial, const NetworkOptions& network, const CompileTarget& target,
                 const PlanChoice& choice, const PassObserver& observer) {
  Compiled out = compile_as(model, spatial, network, target, choice, observer);
  check_memory(model, spatial, out, target);
  return out;
}

Compiled compile(const Model& model, const Shape& spatial, const NetworkOptions& network, const CompileTarget& target,
                 PrecisionChoice precision, const PassObserver& observer) {
  std::optional<Compiled> last;  // of those that were weighed
  const auto bytes_of = [&](const PlanChoice& choice) -> std::optional<uint64_t> {
    last.reset();
    try {
      last = compile_as(model, spatial, network, target, choice, observer);
      return last->peak_bytes();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::OverLimits) return std::nullopt;
      throw;
    }
  };
  Decision decision = choose_plan(precision, target.memory, bytes_of);
  if (!last || last->decision.plan != decision.plan)
    last = compile_as(model, spatial, network, target, decision.plan, observer);
  check_memory(model, spatial, *last, target);
  last->decision = std::move(decision);
  return std::move(*last);
}

}  // namespace gyrus

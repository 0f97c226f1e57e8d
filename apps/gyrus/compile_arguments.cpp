#include "compile_arguments.h"

#include <CLI/CLI.hpp>

#include "core/error.h"

namespace gyrus::cli {

void add_compile_options(CLI::App& command, CompileArguments& arguments) {
  command.add_option("MODEL", arguments.model, "A model's folder, file or name")->required();
  command.add_option("--size", arguments.size, "Voxels of the volume")->type_name("N|AxBxC")->capture_default_str();
  command.add_option("--input", arguments.input, "Element type of the volume")
      ->check(CLI::IsMember({"u8", "f32"}))
      ->type_name("u8|f32")
      ->capture_default_str();
  command
      .add_option("--normalize", arguments.normalize, "As for segment; a plan only knows whether values are clamped")
      ->type_name("HOW");
  add_device_options(command, arguments.device);
}

CompileRequest read_request(const CompileArguments& arguments) {
  CompileRequest request;
  request.size = parse_size(arguments.size);
  DescribedModel described = open_model(arguments.model);
  if (described.model.onnx)
    fail(ErrorCode::Unsupported, described.model.name, "is an ONNX network; this command takes models of layers");
  request.model = std::move(described.model);
  request.manifest = std::move(described.manifest);
  request.normalize = arguments.normalize.empty() ? request.manifest.normalize : parse_normalize(arguments.normalize);
  request.network.input = arguments.input == "u8" ? DType::U8 : DType::F32;
  request.network.clamp = request.normalize.kind != NormalizeKind::None;
  return request;
}

}  // namespace gyrus::cli

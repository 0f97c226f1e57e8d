#pragma once
#include <string>

#include "common.h"
#include "engine/model_store.h"

// What plan, tune and export ask alike: which network, for which volume, for which device.

namespace gyrus::cli {

struct CompileArguments {
  std::string model, size = "256", input = "u8", normalize;
  DeviceArguments device;
};
void add_compile_options(CLI::App& command, CompileArguments& arguments);

// The same, read.
struct CompileRequest {
  Model model;
  Manifest manifest;
  Shape size;
  NormalizeOptions normalize;  // the manifest's, unless --normalize says another
  NetworkOptions network;
};
CompileRequest read_request(const CompileArguments& arguments);

}  // namespace gyrus::cli

#pragma once
#include <string>

#include "common.h"
#include "gyrus/text.h"

// What the commands for language models share.

namespace gyrus::cli {

// --context, --cache and --chunk.
struct TextArguments {
  TextOptions options;
  std::string cache = "f32";
};
void add_text_options(CLI::App& command, TextArguments& arguments);
// The options with the cache and the precision that were asked for.
TextOptions text_options(const TextArguments& arguments, const DeviceArguments& device);

// --temperature, --top-k, --top-p, --min-p, --repetition-penalty and --seed.
void add_sampling_options(CLI::App& command, Sampling& sampling);

// The model on the device that was asked for.
TextGenerator open_text_model(const std::string& model, const TextArguments& text, const DeviceArguments& device);

// What `gyrus plan` says of a GGUF file.
void print_text_plan(const std::string& model, const TextArguments& text, const DeviceArguments& device);

}  // namespace gyrus::cli

#include <cstdio>

#include "commands.h"
#include "outline.h"

namespace gyrus::cli {
namespace {

// Of commands that have no examples in their own files.
struct Examples {
  const char* command;
  const char* text;
};
constexpr Examples kExamples[] = {
    {"conform", "  gyrus conform scan.mgz conformed.nii.gz\n  gyrus conform bold.nii.gz first.nii.gz --volume 0"},
    {"run",
     "  gyrus run model.onnx --input x=x.npy --output-dir results\n  gyrus run model.onnx --shape x=1,3,224,224 "
     "--stats\n  gyrus run net.onnx --input image=photo.jpg --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225"},
    {"generate",
     "  gyrus generate model.gguf \"Once upon a time\" --tokens 200\n  gyrus generate model.gguf \"Dear\" "
     "--temperature "
     "0.8 --top-k 40 --top-p 0.95 --seed 7"},
    {"verify",
     "  gyrus verify mindgrab\n  gyrus verify model.onnx --shape x=1,3,224,224 --limits default --bundle report"},
    {"train", "  gyrus train config.json\n  gyrus train config.json --dry-run\n  gyrus train config.json --resume"},
    {"labels", "  gyrus labels scan.nii.gz brain.nii.gz -o head.nii.gz"},
    {"chat", "  gyrus chat model.gguf --system \"Be brief.\""},
    {"serve", "  gyrus serve model.gguf --port 8080\n  gyrus serve model.gguf --host 0.0.0.0 --key SECRET"},
    {"tokenize",
     "  gyrus tokenize model.gguf \"Once upon a time\"\n  gyrus tokenize model.gguf --file story.txt | gyrus tokenize "
     "model.gguf --decode"},
    {"plan",
     "  gyrus plan mindgrab --size 256 --limits default\n  gyrus plan mindgrab --dump kernels -o plan.json\n  gyrus "
     "plan model.onnx --shape x=1,3,224,224 --html plan.html --profile\n  gyrus plan mindgrab --size 128 --train -q\n"
     "  gyrus plan model.gguf --context 8192 --cache f16"},
    {"info", "  gyrus info mindgrab\n  gyrus info models/model18cls --size 128 --json"},
    {"devices", "  gyrus devices\n  gyrus devices --json"},
    {"tune", "  gyrus tune mindgrab --size 256"},
    {"demo", "  gyrus demo\n  gyrus demo --size 64 --out demo"},
    {"completion",
     "  source <(gyrus completion bash)\n"
     "  gyrus completion zsh > \"${fpath[1]}/_gyrus\"\n"
     "  gyrus completion fish > ~/.config/fish/completions/gyrus.fish"},
    {"man", "  gyrus man | man -l -\n  gyrus man > /usr/local/share/man/man1/gyrus.1"},
};

}  // namespace

void add_manual(CLI::App& app) {
  CLI::App* completion = app.add_subcommand("completion", "Print a completion script for a shell");
  auto shell = std::make_shared<std::string>();
  completion->add_option("SHELL", *shell, "The shell")->check(CLI::IsMember({"bash", "zsh", "fish"}))->required();
  completion->callback([&app, shell] { std::fputs(completion_script(outline_of(app), *shell).c_str(), stdout); });
  CLI::App* man = app.add_subcommand("man", "Print the manual page");
  man->callback([&app] { std::fputs(manual_page(outline_of(app), app.version()).c_str(), stdout); });
}

void add_examples(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands(nullptr))
    for (const Examples& examples : kExamples)
      if (command->get_name() == examples.command && command->get_footer() == app.get_footer())  // inherited
        command->footer(std::string("Examples:\n") + examples.text);
}

}  // namespace gyrus::cli

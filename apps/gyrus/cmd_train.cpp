#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "commands.h"
#include "common.h"
#include "core/error.h"
#include "core/text.h"
#include "progress.h"
#include "training/train.h"

namespace gyrus::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TrainArguments {
  std::string config, out;
  bool resume = false, dry_run = false, evaluate = false, json = false, quiet = false;
  std::optional<int64_t> steps;
  DeviceArguments device;
};

std::string dice_text(double dice) {
  char text[16];
  std::snprintf(text, sizeof text, "%.3f", dice);
  return text;
}

void print_outline(const TrainArguments& arguments, const TrainConfig& config) {
  const TrainOutline made = outline(config, plan_target(arguments.device));
  if (arguments.json) {
    const Json json = {{"subjects", made.subjects},
                       {"validation_subjects", made.validation_subjects},
                       {"extents", made.extents},
                       {"batch", config.batch},
                       {"parameters", made.parameters},
                       {"trained", made.trained},
                       {"peak_bytes", made.peak_bytes},
                       {"recompute_bytes", made.least_bytes},
                       {"state_bytes", made.state_bytes},
                       {"flops", made.flops},
                       {"steps", config.steps}};
    return print_out(json.dump(2) + "\n");
  }
  std::string text =
      cat("data        ", made.subjects, " subjects",
          made.validation_subjects > 0 ? cat(", ", made.validation_subjects, " to validate with") : std::string(),
          "\ninput       ", config.batch, " x ", extents_text(made.extents), " voxels\nclasses     ");
  // Phantoms are not made before they are wanted.
  const auto voxels =
      static_cast<double>(std::accumulate(made.class_voxels.begin(), made.class_voxels.end(), int64_t{0}));
  for (size_t i = 0; i < config.labels.size(); ++i) {
    text += (i == 0 ? "" : ", ") + config.labels[i];
    char share[24];
    std::snprintf(share, sizeof share, " %.1f %%", 100 * static_cast<double>(made.class_voxels[i]) / voxels);
    if (voxels > 0) text += share;
  }
  text += cat("\nnetwork     ", made.parameters, " parameters, ", made.trained, " of them trained\nsteps       ",
              config.steps, "\nmemory      ", bytes_text(made.peak_bytes), " on the device for a step, ",
              bytes_text(made.state_bytes), " of it weights and the optimiser's states; ", bytes_text(made.least_bytes),
              " with \"recompute\": \"cheap\"\nwork        ", count_text(made.flops), "FLOP a step\n");
  print_out(text);
}

void print_scores(const TrainArguments& arguments, const TrainConfig& config, const std::vector<PhantomScore>& scores) {
  Json json;
  std::string text = " noise   bias   Dice";
  for (size_t i = 1; i < config.labels.size(); ++i) text += cat("  ", config.labels[i]);
  text += "\n";
  double mean = 0;
  for (const PhantomScore& score : scores) {
    char line[64];
    std::snprintf(line, sizeof line, "%6.1f %6.2f  %s", score.noise, score.bias,
                  dice_text(score.validation.dice).c_str());
    text += line;
    Json labels;
    for (size_t i = 1; i < config.labels.size(); ++i) {
      const std::string dice = dice_text(score.validation.of_labels[i]);
      text += "  " + std::string(std::max(dice.size(), config.labels[i].size()) - dice.size(), ' ') + dice;
      labels[config.labels[i]] = score.validation.of_labels[i];
    }
    text += "\n";
    json["levels"].push_back(
        {{"noise", score.noise}, {"bias", score.bias}, {"dice", score.validation.dice}, {"labels", labels}});
    mean += score.validation.dice / static_cast<double>(scores.size());
  }
  json["dice"] = mean;
  print_out(arguments.json ? json.dump(2) + "\n"
                           : text + "mean           " + dice_text(mean) + " on " +
                                 std::to_string(config.evaluation.phantoms.count) + " heads each\n");
}

void run(const TrainArguments& arguments) {
  const TrainConfig config = read_config(arguments.config, arguments.steps);
  if (arguments.dry_run) return print_outline(arguments, config);
  TrainRun run;
  run.out = arguments.out;
  run.device = arguments.device.device;
  run.threads = arguments.device.threads;
  run.limits = read_limits(arguments.device.limits).limits;
  run.resume = arguments.resume;
  run.cancel = &interrupted();
  run.say = say;
  if (arguments.evaluate) return print_scores(arguments, config, evaluate(config, run));
  run.opened = [&](const AdapterInfo& adapter) {
    if (!arguments.quiet && adapter.type >= AdapterType::Cpu) say(cat("no GPU is used: ", adapter.name, " computes"));
  };
  ProgressBar bar(!arguments.quiet && !arguments.json);
  run.progress = [&](const TrainProgress& at) {
    char text[96];
    std::snprintf(text, sizeof text, "step %lld loss %.4f%s", static_cast<long long>(at.step), at.loss,
                  at.dice ? (" Dice " + dice_text(*at.dice)).c_str() : "");
    bar.show(static_cast<double>(at.step) / static_cast<double>(at.steps), text);
  };
  const TrainResult result = train(config, run);
  bar.clear();
  if (arguments.json) {
    Json json = {{"model", result.folder}, {"steps", result.steps}, {"loss", result.loss}};
    if (result.validation) {
      json["dice"] = result.validation->dice;
      for (size_t i = 0; i < result.validation->of_labels.size(); ++i)
        json["labels"][config.labels[i]] = result.validation->of_labels[i];
    }
    json["stopped_early"] = result.stopped_early;
    return print_out(json.dump(2) + "\n");
  }
  if (arguments.quiet) return;
  std::string text = cat(result.steps, " steps", result.stopped_early ? ", stopped early" : "", ", loss ", result.loss);
  if (result.validation) {
    text += ", Dice " + dice_text(result.validation->dice) + "\n";
    for (size_t i = 0; i < result.validation->of_labels.size(); ++i)
      text += "  " + dice_text(result.validation->of_labels[i]) + "  " + config.labels[i] + "\n";
  }
  print_out(text + (text.back() == '\n' ? "" : "\n") + "model: " + result.folder + "\n");
}

}  // namespace

void add_train(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Train a network as a config says and write it as a model folder");
  auto arguments = std::make_shared<TrainArguments>();
  command->add_option("config", arguments->config, "The config, JSON or TOML (.toml) (docs/training.md)")
      ->required()
      ->type_name("FILE");
  command->add_option("--out", arguments->out, "Folder for log, checkpoints and model; the config's unless given")
      ->type_name("DIR");
  command->add_option("--steps", arguments->steps, "Steps, instead of the config's")->type_name("N");
  command->add_flag("--resume", arguments->resume, "Go on from the last checkpoint in that folder");
  command->add_flag("--dry-run", arguments->dry_run, "Check config and data, say what a step takes, and train nothing");
  command->add_flag("--evaluate", arguments->evaluate,
                    "Train nothing: Dice of the model in that folder on the phantoms of the config's evaluation");
  add_device_options(*command, arguments->device);
  for (const char* option : {"--precision", "--matrix"})  // the config says them
    command->remove_option(command->get_option(option));
  command->add_flag("-q,--quiet", arguments->quiet, "Say nothing unless it fails");
  command->add_flag("--json", arguments->json, "Print the result as JSON");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli

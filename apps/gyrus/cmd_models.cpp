#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common.h"
#include "core/error.h"
#include "core/text.h"
#include "engine/known_models.h"
#include "engine/model_store.h"
#include "info.h"
#include "manifest_write.h"
#include "model_fetch.h"

namespace gyrus::cli {
namespace {

const char* state_text(ModelState state) {
  switch (state) {
    case ModelState::Absent: return "absent";
    case ModelState::Stored: return "cached";
    case ModelState::Changed: return "changed";
  }
  return "";
}

void print_models(bool json) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  if (!json)
    std::printf("%-18s %-17s %-8s %10s %8s  %-8s %s\n", "name", "or", "state", "size", "classes", "licence", "");
  for (const ModelEntry& model : list_models()) {
    const char* const state = state_text(state_of(model));
    all.push_back({{"name", model.name},
                   {"alias", alias_of(model.name)},
                   {"title", model.title},
                   {"state", state},
                   {"bytes", model.bytes()},
                   {"classes", model.classes},
                   {"licence", model.licence}});
    if (!json)
      std::printf("%-18s %-17s %-8s %10s %8lld  %-8s %s\n", model.name.c_str(), alias_of(model.name).c_str(), state,
                  bytes_text(model.bytes()).c_str(), static_cast<long long>(model.classes), model.licence.c_str(),
                  model.title.c_str());
  }
  if (json)
    std::printf("%s\n", all.dump(2).c_str());
  else
    std::printf("\nCached ones are in %s\n", models_folder().c_str());
}

// What is built in of a model that is not here. False where it is here, or not known.
bool describe_absent(const InfoArguments& arguments) {
  const std::string name = name_behind(arguments.model);
  for (const KnownModel& known : known_models()) {
    if (known.name != name || std::filesystem::exists(arguments.model) ||
        std::filesystem::exists(std::filesystem::path(models_folder()) / name))
      continue;
    const nlohmann::ordered_json out = {{"model", name},
                                        {"title", known.title},
                                        {"state", "absent"},
                                        {"classes", known.classes},
                                        {"parameters", known.parameters},
                                        {"normalize", known.normalize},
                                        {"licence", kKnownLicence},
                                        {"citation", citation_of(known)}};
    if (arguments.json) {
      print_out(out.dump(2) + "\n");
      return true;
    }
    for (const auto& [key, value] : out.items())
      std::printf("%-16s %s\n", key.c_str(),
                  value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
    std::printf("\ngyrus models fetch %s brings it, with labels and layers to show\n", name.c_str());
    return true;
  }
  return false;
}

void add_describe(CLI::App& models) {
  CLI::App* command = models.add_subcommand("describe", "Show a model's manifest: labels, colours, licence, citation");
  auto arguments = std::make_shared<InfoArguments>();
  auto write = std::make_shared<bool>(false);
  arguments->manifest = true;
  command->add_option("MODEL", arguments->model, "A model's folder, file or name")->type_name("MODEL")->required();
  command->add_option("--size", arguments->size, "Voxels for which cost is shown")
      ->type_name("N|AxBxC")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->add_flag("--write", *write,
                    "Write a gyrus.json with what is used now into the model's folder, to be changed");
  command->footer(
      "Examples:\n  gyrus models describe mindgrab\n  gyrus models describe models/model18cls --json\n"
      "  gyrus models describe models/own --write");
  command->callback([arguments, write] {
    if (*write) return print_out(write_manifest(arguments->model) + "\n");
    if (describe_absent(*arguments)) return;
    print_info(*arguments);
    const DescribedModel described = open_model(arguments->model);
    if (lacks_manifest(described)) say_lacking(described, arguments->model);
  });
}

void add_fetch(CLI::App& models) {
  struct Arguments {
    std::vector<std::string> names;
    std::string from;
    bool quiet = false;
  };
  CLI::App* command = models.add_subcommand("fetch", "Bring models into the cache and check them");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("NAME", arguments->names, "Names that gyrus models shows")->type_name("MODEL")->required();
  command
      ->add_option("--from", arguments->from,
                   "Where the files are instead of the public repository: a folder, a file in it, or an address")
      ->type_name("FILE|DIR|URL");
  command->add_flag("-q,--quiet", arguments->quiet, "Say nothing unless it fails");
  command->footer(
      "Examples:\n"
      "  gyrus models fetch mindgrab model18cls\n"
      "  gyrus models fetch mindgrab --from /media/stick/mindgrab\n"
      "  GYRUS_MODELS_URL=https://mirror.example.org/meshnet gyrus models fetch mindgrab");
  command->callback([arguments] {
    if (arguments->names.size() > 1 && !arguments->from.empty() && arguments->from.rfind("http", 0) == 0)
      fail(ErrorCode::InvalidInput, "--from", "an address holds the files of one model; fetch them one by one");
    for (const std::string& name : arguments->names) fetch(name, arguments->from, arguments->quiet);
  });
}

}  // namespace

void add_models(CLI::App& app) {
  CLI::App* command = app.add_subcommand("models", "List the models that can be had by name; describe or fetch them");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  add_describe(*command);
  add_fetch(*command);
  command->footer("Examples:\n  gyrus models\n  gyrus models fetch mindgrab\n  gyrus models describe mindgrab");
  command->callback([command, json] {
    if (command->get_subcommands().empty()) print_models(*json);
  });
}

}  // namespace gyrus::cli

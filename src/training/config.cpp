#include "training/config.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "gyrus/train_fields.h"
#include "training/bids_pairs.h"
#include "training/config_reader.h"

namespace gyrus {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::json;

constexpr int64_t kMostSteps = 100'000'000;
constexpr int64_t kMostExtent = 2048;
constexpr int64_t kMostClasses = 256;  // labels are bytes
constexpr double kLarge = 1e30;
constexpr double kLeastClip = 1e-12;  // at 0 nothing would change

// A path as seen from the config's folder.
std::string located(const std::string& file, const std::string& path) {
  return fs::path(path).is_absolute() ? path : (fs::path(file).parent_path() / path).lexically_normal().string();
}

NetworkConfig read_network(ConfigObject object) {
  NetworkConfig network;
  if (object.has("file")) {
    network.kind = NetworkConfig::Kind::File;
    network.file = located(object.file(), object.text("file"));
    network.dropout = object.number("dropout", 0, 0, 0);
    object.done();
    return network;
  }
  network.kind = static_cast<NetworkConfig::Kind>(object.word("type", {"meshnet", "unet"}));
  const bool unet = network.kind == NetworkConfig::Kind::UNet;
  if (unet) network.channels = {16, 32, 64};
  if (object.has("channels")) network.channels = object.integers("channels", 1, 1024);
  if (!unet && network.channels.size() != 1) object.bad("channels", "a meshnet has one number for all its layers");
  if (unet && (network.channels.size() < 2 || network.channels.size() > 6))
    object.bad("channels", "a unet has 2 to 6 levels, a number for each");
  if (!unet && object.has("dilations")) network.dilations = object.integers("dilations", 1, 64);
  const std::vector<std::string> norms = {"batch", "instance", "none"};
  network.norm = norms[object.word("norm", norms)];
  network.affine = object.flag("affine", true);
  if (network.norm == "batch") network.momentum = object.number("momentum", network.momentum, 0, 1);
  const std::vector<std::string> activations = {"relu", "gelu", "elu", "silu", "leaky_relu"};
  network.activation = activations[object.word("activation", activations)];
  network.dropout = object.number("dropout", 0, 0, 0.9);
  object.done();
  return network;
}

PhantomConfig read_phantoms(ConfigObject object) {
  PhantomConfig phantoms;
  phantoms.count = object.integer("count", 32, 1, 1'000'000);
  phantoms.seed = static_cast<uint64_t>(object.integer("seed", 1, 0, int64_t{1} << 52));
  if (object.has("sizes")) phantoms.sizes = object.integers("sizes", 16, 512);
  phantoms.noise = object.range("noise", phantoms.noise, 0, 100);
  phantoms.bias = object.range("bias", phantoms.bias, 0, 0.9);
  object.done();
  return phantoms;
}

std::vector<PairConfig> read_pairs(ConfigObject& object) {
  std::vector<PairConfig> pairs;
  const Json& list = object.at("pairs");
  if (!list.is_array() || list.empty()) object.bad("pairs", "expected a list of {\"image\": …, \"labels\": …}");
  for (size_t i = 0; i < list.size(); ++i) {
    ConfigObject pair(list[i], object.file(), cat(object.place("pairs"), "[", i, "]"));
    const std::string image = pair.text("image", "");
    pairs.push_back({image.empty() ? "" : located(object.file(), image), located(object.file(), pair.text("labels"))});
    pair.done();
  }
  return pairs;
}

// The keys that say which subjects there are; they may stand together.
SubjectsConfig read_subjects(ConfigObject& object) {
  SubjectsConfig subjects;
  if (object.has("pairs")) subjects.pairs = read_pairs(object);
  if (object.has("list")) {
    const auto more = read_pair_list(located(object.file(), object.text("list")));
    subjects.pairs.insert(subjects.pairs.end(), more.begin(), more.end());
  }
  if (object.has("bids")) {
    ConfigObject bids = object.object("bids");
    const auto more =
        find_bids_pairs(located(object.file(), bids.text("images")), located(object.file(), bids.text("labels")),
                        bids.text("suffix", "T1w"), bids.text("label_suffix", "dseg"));
    bids.done();
    subjects.pairs.insert(subjects.pairs.end(), more.begin(), more.end());
  }
  if (object.has("phantoms")) subjects.phantoms = read_phantoms(object.object("phantoms"));
  for (const char* key : {"pairs", "list", "bids", "phantoms"}) object.expect(key);
  return subjects;
}

std::map<int64_t, int64_t> read_class_map(ConfigObject& object, int64_t classes) {
  std::map<int64_t, int64_t> map;
  ConfigObject given = object.object("map");
  for (const auto& [key, value] : given.json().items()) {
    const bool number = !key.empty() && key.size() < 5 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!number || std::stoll(key) >= classes)
      given.bad(key, cat("is no class; there are 0 to ", classes - 1, ", each with a list of the labels that it is"));
    for (const int64_t label : given.integers(key, 0, 65535))
      if (!map.emplace(label, std::stoll(key)).second) given.bad(key, cat("label ", label, " has a class already"));
  }
  return map;
}

DataConfig read_data(ConfigObject object, int64_t classes) {
  DataConfig data;
  data.subjects = read_subjects(object);
  if (data.subjects.empty()) object.bad("", "has no subjects; give pairs, list, bids or phantoms");
  if (object.has("map")) data.classes = read_class_map(object, classes);
  if (object.has("normalize")) {
    try {
      data.normalize = parse_normalize(object.text("normalize"));
    } catch (const Error& error) {
      object.bad("normalize", error.what());
    }
  }
  data.conform = object.flag("conform", false);
  if (object.has("patch") && object.at("patch") != "whole") {
    data.patch = object.integers("patch", 1, kMostExtent);
    if (data.patch.size() == 1) data.patch.assign(3, data.patch[0]);
    if (data.patch.size() != 3) object.bad("patch", "expected \"whole\", one extent or three");
  } else if (object.has("patch")) {
    object.at("patch");
  }
  data.margin = object.integer("margin", 0, 0, 256);
  if (data.margin > 0 && data.patch.empty()) object.bad("margin", "lies around a patch, and there is none");
  data.samples = object.integer("samples", 1, 1, 10'000);
  data.foreground = object.number("foreground", 0, 0, 1);
  object.done();
  return data;
}

LossTerm read_term(LossTerm::Kind kind, ConfigObject object, int64_t classes) {
  LossTerm term;
  term.kind = kind;
  term.weight = object.number("weight", 1, 0, kLarge);
  const bool dice = kind == LossTerm::Kind::Dice;
  if (!dice && object.has("class_weights")) {
    term.class_weights = object.numbers("class_weights", 0, kLarge);
    if (static_cast<int64_t>(term.class_weights.size()) != classes)
      object.bad("class_weights", cat(term.class_weights.size(), " weights for ", classes, " classes"));
    if (std::all_of(term.class_weights.begin(), term.class_weights.end(), [](double w) { return w == 0; }))
      object.bad("class_weights", "all are 0, so that nothing counts");
  }
  if (kind == LossTerm::Kind::CrossEntropy) {
    term.label_smoothing = object.number("label_smoothing", 0, 0, 0.99);
    if (object.has("ignore")) term.ignore = object.integer("ignore", 0, 0, classes - 1);
  }
  if (kind == LossTerm::Kind::Focal) term.gamma = object.number("gamma", 2, 0, 20);
  if (dice) {
    term.dice.batch = object.flag("batch", false);
    term.dice.squared = object.flag("squared", false);
    term.dice.include_background = object.flag("background", true);
    term.dice.smooth = object.number("smooth", 1, 0, kLarge);
  }
  object.done();
  return term;
}

std::vector<LossTerm> read_loss(ConfigObject& root, int64_t classes) {
  static const std::vector<std::string> kinds = {"cross_entropy", "dice", "focal"};
  if (!root.has("loss")) {
    root.word("loss", kinds);
    return {LossTerm{}};
  }
  if (root.at("loss").is_string()) {
    LossTerm term;
    term.kind = static_cast<LossTerm::Kind>(root.word("loss", kinds));
    return {term};
  }
  ConfigObject loss = root.object("loss");
  std::vector<LossTerm> terms;
  const Json none = Json::object();
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (!loss.has(kinds[i])) {
      loss.expect(kinds[i]);
      continue;
    }
    const Json& given = loss.at(kinds[i]);
    if (given.is_number()) {
      LossTerm term;
      term.kind = static_cast<LossTerm::Kind>(i);
      term.weight = loss.number(kinds[i], 1, 0, kLarge);
      terms.push_back(term);
    } else {
      terms.push_back(read_term(static_cast<LossTerm::Kind>(i), loss.object(kinds[i]), classes));
    }
  }
  loss.done();
  if (std::all_of(terms.begin(), terms.end(), [](const LossTerm& term) { return term.weight == 0; }))
    root.bad("loss", "is a sum of nothing");
  return terms;
}

// What one of the kinds is called, under "type".
template <class Kind, size_t N>
Kind read_kind(ConfigObject& object, const KindName<Kind> (&kinds)[N]) {
  std::vector<std::string> words;
  for (const auto& kind : kinds) words.emplace_back(kind.name);
  return kinds[object.word("type", words)].kind;
}

// The fields that the kind looks at; what is absent stays as it is.
template <class Options>
auto field_reader(ConfigObject& object, Options& options) {
  return [&](const auto& field, auto member) {
    if (!field.is_of(options.kind)) return;
    auto& value = options.*member;
    using T = std::decay_t<decltype(value)>;
    const auto whole = [](double number) { return static_cast<int64_t>(number); };
    if constexpr (std::is_same_v<T, bool>)
      value = object.flag(field.name, value);
    else if constexpr (std::is_same_v<T, double>)
      value = object.number(field.name, value, field.least, field.most);
    else if constexpr (std::is_same_v<T, int64_t>)
      value = object.integer(field.name, value, whole(field.least), whole(field.most));
    else
      value = object.integers(field.name, whole(field.least), whole(field.most));
  };
}

Optimizer read_optimizer(ConfigObject object, Schedule& schedule) {
  Optimizer optimizer = optimizer_of(read_kind(object, kOptimizerKinds));
  schedule.rate = object.number("rate", schedule.rate, 0, 1e6);
  each_optimizer_field(field_reader(object, optimizer));
  object.done();
  return optimizer;
}

void read_schedule(ConfigObject object, int64_t updates, Schedule& schedule) {
  schedule.kind = read_kind(object, kScheduleKinds);
  const bool warms_up = schedule.kind == ScheduleKind::WarmupCosine;
  if (warms_up) schedule.warmup = std::min<int64_t>(100, updates / 10);
  const auto read = field_reader(object, schedule);
  each_schedule_field([&](const auto& field, auto member) {
    if constexpr (std::is_same_v<decltype(member), double Schedule::*>)
      if (member == &Schedule::rate) return;  // stands with the optimiser
    read(field, member);
  });
  if (schedule.kind == ScheduleKind::ByStep) object.at("step_size");
  const bool ends = warms_up || schedule.kind == ScheduleKind::Cosine || schedule.kind == ScheduleKind::OneCycle;
  if (ends && !object.has("total")) schedule.total = std::max<int64_t>(1, updates - (warms_up ? schedule.warmup : 0));
  object.done();
}

void read_groups(ConfigObject& root, TrainConfig& config) {
  const Json& list = root.at("groups");
  if (!list.is_array()) root.bad("groups", "expected a list of {\"pattern\": …}");
  for (size_t i = 0; i < list.size(); ++i) {
    ConfigObject group(list[i], root.file(), cat("groups[", i, "]"));
    ParameterGroup made;
    made.pattern = group.text("pattern");
    made.weight_decay = group.number("weight_decay", 0, kLarge);
    made.rate = group.number("rate", 1, 0, 1e6);
    made.frozen = group.flag("frozen", false);
    group.done();
    config.training.groups.push_back(std::move(made));
  }
}

AugmentOptions read_augment(ConfigObject object) {
  AugmentOptions augment;
  if (object.has("flip")) {
    for (const std::string& axis : object.texts("flip")) {
      if (axis != "x" && axis != "y" && axis != "z") object.bad("flip", "\"" + axis + "\" is none of x, y, z");
      augment.flip[axis[0] - 'x'] = true;
    }
  } else {
    object.expect("flip");
  }
  augment.rotate = object.number("rotate", 0, 0, 180);
  augment.scale = object.number("scale", 0, 0, 0.9);
  augment.shear = object.number("shear", 0, 0, 1);
  augment.translate = object.number("translate", 0, 0, 512);
  augment.elastic = object.number("elastic", 0, 0, 100);
  augment.elastic_spacing = object.integer("elastic_spacing", 16, 2, 256);
  augment.noise = object.number("noise", 0, 0, 10);
  augment.bias = object.number("bias", 0, 0, 10);
  augment.bias_spacing = object.integer("bias_spacing", 64, 2, 512);
  augment.gamma = object.number("gamma", 0, 0, 10);
  augment.contrast = object.number("contrast", 0, 0, 10);
  augment.brightness = object.number("brightness", 0, 0, 10);
  augment.blur = object.number("blur", 0, 0, 10);
  augment.resolution = object.number("resolution", 0, 0, 32);
  augment.synthesize = object.flag("synthesize", false);
  object.done();
  return augment;
}

ValidationConfig read_validation(ConfigObject object) {
  ValidationConfig validation;
  validation.subjects = read_subjects(object);
  validation.share = object.number("share", 0, 0, 0.9);
  validation.every = object.integer("every", 100, 1, kMostSteps);
  if (validation.subjects.empty() && validation.share == 0)
    object.bad("", "has no subjects; give share, pairs, list, bids or phantoms");
  if (!validation.subjects.empty() && validation.share > 0) object.bad("share", "stands beside subjects of its own");
  object.done();
  return validation;
}

EvaluationConfig read_evaluation(ConfigObject object) {
  EvaluationConfig evaluation;
  evaluation.phantoms = read_phantoms(object.object("phantoms"));
  if (!object.has("levels")) {
    object.expect("levels");
    evaluation.levels.push_back({});
  } else {
    const Json& list = object.at("levels");
    if (!list.is_array() || list.empty()) object.bad("levels", "expected a list of {\"noise\": …, \"bias\": …}");
    for (size_t i = 0; i < list.size(); ++i) {
      ConfigObject level(list[i], object.file(), cat(object.place("levels"), "[", i, "]"));
      evaluation.levels.push_back({level.number("noise", 4, 0, 100), level.number("bias", 0.1, 0, 0.9)});
      level.done();
    }
  }
  object.done();
  return evaluation;
}

std::vector<std::string> read_classes(ConfigObject& root) {
  const Json& given = root.at("classes");
  std::vector<std::string> labels;
  if (given.is_number()) {
    const int64_t count = root.integer("classes", 0, 2, kMostClasses);
    labels.emplace_back("background");
    for (int64_t i = 1; i < count; ++i) labels.push_back(cat("label ", i));
  } else {
    labels = root.texts("classes");
  }
  if (labels.size() < 2 || static_cast<int64_t>(labels.size()) > kMostClasses)
    root.bad("classes", cat(labels.size(), " classes are not between 2 and ", kMostClasses));
  std::set<std::string> names;
  for (const std::string& name : labels)
    if (name.empty() || !names.insert(name).second)
      root.bad("classes", cat("\"", name, "\" ", name.empty() ? "is no name" : "stands twice"));
  return labels;
}

// What does not change the losses of a step is not in it.
std::string hash_of(Json root, const Schedule& schedule) {
  for (const char* key :
       {"title", "description", "licence", "citation", "components", "fill_holes", "allow_empty", "steps",
        "checkpoint_every", "log_every", "out", "stop", "export", "keep", "validation", "evaluation"})
    root.erase(key);
  root["schedule_total"] = std::max<int64_t>(1, schedule.total);
  if (schedule.kind == ScheduleKind::WarmupCosine) root["schedule_warmup"] = schedule.warmup;
  const std::string text = root.dump(-1, ' ', false, Json::error_handler_t::replace);
  Sha256 sha;
  sha.add(std::as_bytes(std::span(text.data(), text.size())));
  return sha.hex();
}

void read_numbers(ConfigObject& root, TrainConfig& config) {
  config.steps = root.integer("steps", 0, 1, kMostSteps);
  if (config.steps == 0) root.bad("steps", "is missing");
  config.batch = root.integer("batch", 1, 1, 4096);
  config.seed = static_cast<uint64_t>(root.integer("seed", 1, 0, (int64_t{1} << 31) - 1));
  config.checkpoint_every = root.integer("checkpoint_every", 100, 1, kMostSteps);
  config.log_every = root.integer("log_every", 1, 1, kMostSteps);
  config.training.accumulate = root.integer("accumulate", 1, 1, 1'000'000);
  config.training.average = root.number("average", 0, 0.9999999);
}

void read_result(ConfigObject& root, TrainConfig& config) {
  config.title = root.text("title", "");
  config.description = root.text("description", "");
  config.licence = root.text("licence", "");
  config.citation = root.text("citation", "");
  config.largest_component = root.word("components", {"keep", "largest"}) == 1;
  config.fill_holes = root.flag("fill_holes", false);
  config.allow_empty = root.flag("allow_empty", false);
  config.out = located(config.file, root.text("out", "trained"));
  config.keep_best = root.word("keep", {"best", "last"}) == 0;
  if (!root.has("export")) return root.expect("export");
  for (const std::string& word : root.texts("export")) {
    if (word != "safetensors" && word != "onnx")
      root.bad("export", "\"" + word + "\" is not known; there are: onnx, safetensors");
    (word == "onnx" ? config.write_onnx : config.write_safetensors) = true;
  }
}

void read_optional(ConfigObject& root, TrainConfig& config) {
  if (root.has("clip")) {
    ConfigObject clip = root.object("clip");
    config.training.clip_norm = clip.number("norm", kLeastClip, kLarge);
    config.training.clip_value = clip.number("value", kLeastClip, kLarge);
    clip.done();
  }
  if (root.has("groups")) read_groups(root, config);
  if (root.has("augment")) {
    config.augment = read_augment(root.object("augment"));
    config.augmented = true;
  }
  if (root.has("validation")) config.validation = read_validation(root.object("validation"));
  if (root.has("evaluation")) config.evaluation = read_evaluation(root.object("evaluation"));
  if (root.has("stop")) {
    ConfigObject stop = root.object("stop");
    config.patience = stop.integer("patience", 10, 1, kMostSteps);
    config.least_gain = stop.number("least_gain", 0, 0, 1);
    stop.done();
    if (config.validation.every == 0) root.bad("stop", "looks at the Dice of a validation, and there is none");
  }
  if (root.has("start")) config.start = located(config.file, root.text("start"));
  if (root.has("adapters")) {
    ConfigObject adapters = root.object("adapters");
    config.adapters.rank = adapters.integer("rank", 4, 1, 1024);
    config.adapters.pattern = adapters.text("pattern", "*");
    adapters.done();
    if (config.start.empty() && config.network.kind != NetworkConfig::Kind::File)
      root.bad("adapters", "are trained beside given weights; name them with start");
    if (!config.training.groups.empty()) root.bad("adapters", "stand beside groups; all but the adapters is frozen");
  }
  for (const char* key : {"clip", "groups", "augment", "validation", "stop", "start", "adapters"}) root.expect(key);
}

}  // namespace

TrainConfig parse_config(const std::string& text, const std::string& file, std::optional<int64_t> steps) {
  Json json = fs::path(file).extension() == ".toml" ? parse_config_toml(text, file) : parse_config_json(text, file);
  if (steps && json.is_object()) json["steps"] = *steps;
  ConfigObject root(json, file, "");
  TrainConfig config;
  config.file = file;
  config.labels = read_classes(root);
  config.network = read_network(root.object("network"));
  config.data = read_data(root.object("data"), config.classes());
  read_numbers(root, config);
  config.loss = read_loss(root, config.classes());
  const Json none = Json::object();
  config.training.optimizer = read_optimizer(
      root.has("optimizer") ? root.object("optimizer") : ConfigObject(none, file, "optimizer"), config.schedule);
  const int64_t updates = (config.steps + config.training.accumulate - 1) / config.training.accumulate;
  read_schedule(root.has("schedule") ? root.object("schedule") : ConfigObject(none, file, "schedule"), updates,
                config.schedule);
  read_optional(root, config);
  read_result(root, config);
  config.halves = root.word("precision", {"f32", "f16"}) == 1;
  if (config.halves) config.training.loss_scaling.emplace();
  constexpr Recompute kRecompute[] = {Recompute::Norms, Recompute::Cheap, Recompute::None};
  config.training.recompute = kRecompute[root.word("recompute", {"norms", "cheap", "none"})];
  for (const char* key : {"optimizer", "schedule"}) root.expect(key);
  root.done();
  for (const PairConfig& pair : config.data.subjects.pairs)
    if (pair.image.empty() && !config.augment.synthesize)
      fail(ErrorCode::InvalidInput, file, "data: ", pair.labels,
           " has no image; give one, or augment.synthesize, which makes images from labels");
  for (const PairConfig& pair : config.validation.subjects.pairs)
    if (pair.image.empty())
      fail(ErrorCode::InvalidInput, file, "validation: ", pair.labels,
           " has no image to validate with; name pairs with images");
  config.hash = hash_of(json, config.schedule);
  return config;
}

TrainConfig read_config(const std::string& path, std::optional<int64_t> steps) {
  const std::vector<std::byte> bytes = read_file(path);
  return parse_config(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), path, steps);
}

std::vector<PairConfig> read_pair_list(const std::string& path) {
  const std::vector<std::byte> bytes = read_file(path);
  std::istringstream lines(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::vector<PairConfig> pairs;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    const size_t tab = line.find('\t');
    const std::string first = line.substr(0, tab), second = tab == std::string::npos ? "" : line.substr(tab + 1);
    if (first.empty() || second.find('\t') != std::string::npos)
      fail(ErrorCode::InvalidInput, path, "line ", number, ": expected an image, a tab and its labels");
    if (second.empty())
      pairs.push_back({"", located(path, first)});
    else
      pairs.push_back({located(path, first), located(path, second)});
  }
  if (pairs.empty()) fail(ErrorCode::InvalidInput, path, "names no files");
  return pairs;
}

}  // namespace gyrus

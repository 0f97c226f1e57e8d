#include "engine/known_models.h"

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/hash.h"
#include "import/network.h"
#include "import/onnx_volume.h"

namespace gyrus {

const std::vector<KnownModel>& known_models() {
  static const std::vector<KnownModel> models = {
      {"mindgrab",
       "Skull stripping for any contrast (MindGrab)",
       "quantile:0.02,0.98",
       "background,brain",
       true,
       2,
       146237,
       "1a76ba1acdd33f8fafbe03390355a97618b003b4660e622f10a20d87052995e3",
       {
           {"model.json", 3980, "e321f27014eb05f187667873d5301be57f9aac4c5be427e68e9f484748d643fd"},
           {"model.pth", 595371, "31f1bda17b8d3eee17a54cf3f199899763a6615a049f05ab2a05f18eb98ec23a"},
       }},
      {"model5_gw_ae",
       "Grey and white matter, light",
       "minmax",
       "background,White Matter,Grey Matter",
       false,
       3,
       5598,
       "c56481f2e1026b2c6f254b7cf0b3427188d28b493469a706ca65fff03a41d5e2",
       {
           {"model.json", 1616, "c013b89170e5d6a3bfcff7f4d4cd5aae1e28ceea6b529cb29e4a9b0ae9b2f972"},
           {"model.pth", 23928, "8b83b35b971305b9baeef9f927a5f0d4432c7beea60743f54e8d960031298ba3"},
           {"colormap3.json", 137, "71f3ce5c5d9d0db1208937f55fa35b9970ce63c1a24753cf74c471fe9a3c27eb"},
       }},
      {"model11_gw_ae",
       "Grey and white matter, large",
       "minmax",
       "background,White Matter,Grey Matter",
       false,
       3,
       23290,
       "e256e64efe5ee44c4ba2ca50f7ffe73e6e8d5d4089c31d018437202b08d2a2d2",
       {
           {"model.json", 9054, "09d1afa152a907a545ce814842613559fbfe2bfdaab0bc8708ea79cd3e17229c"},
           {"model.bin", 93160, "7f93edb82252cdc59e3faf3ae5a27622bc748d02db64df2cf429ad807891c261"},
       }},
      {"model18cls",
       "18 regions",
       "minmax",
       "",
       false,
       18,
       96408,
       "f2aa56f67373616e34bb351c0436ec12b6e5eefdd4048c405d4033c4ae648421",
       {
           {"model.json", 1642, "fe0f89503d9f412e6b79a8f55ea0cb074f7c3668e0344ab2e00efc2debec6f6e"},
           {"model.pth", 387240, "0798b61d58626010708284cab719f2674c817c789acb84e8eec5265a46e8fbbc"},
           {"colormap.json", 608, "10ebff5980dd2afe1a1407dd951d1258dfc95fec51641bab9b4a9b88d76808c5"},
       }},
      {"model20chan3cls",
       "Grey and white matter, high accuracy",
       "quantile:0.02,0.98",
       "background,White Matter,Grey Matter",
       false,
       3,
       87183,
       "3032069c86b5936efeb651f7bb7ebb1fe621e6f60051d695a0b78a78c8a852ba",
       {
           {"model.json", 28897, "53932edad5330073bbac906049a31b84a2ca3d8c65d658feea848130004b984b"},
           {"model.bin", 348732, "aecc03e3db596bfffab0ea1143f0848dbf4da4e317e04ef202986c6888cd467f"},
           {"colormap.json", 137, "71f3ce5c5d9d0db1208937f55fa35b9970ce63c1a24753cf74c471fe9a3c27eb"},
       }},
      {"model21_104class",
       "104 regions of the FreeSurfer aparc atlas",
       "minmax",
       "",
       false,
       104,
       86372,
       "d58c8f6cbce938ff3c33f0653ae36e91bb19fffb3ddfb82911c5ec1b1bd915a5",
       {
           {"model.json", 1039, "aa8b23c241655dc3235f9603d5422368c76eb80e73e84adccb2dafdb882118b2"},
           {"model.pth", 346936, "09e80b88aac5069cf536114c9082a30e574c2ef12fbd396cd7c02e8ccb025622"},
           {"colormap.json", 3904, "a450db760609a91a38b3ff1810a465841c39b1ff138cab005071c897ad0da069"},
       }},
      {"model30chan18cls",
       "18 regions, high accuracy",
       "minmax",
       "",
       false,
       18,
       196038,
       "2fc6b06d796ede537d5d03b5e0774cee336ad0aa7ad99486d9ebdd170b3a5530",
       {
           {"model.json", 28638, "d28521c0965e452c371314e4b5b4dcef7b19aa91241b17ef894ac24952139701"},
           {"model.bin", 784152, "7039651d91c4cee0b7b1ddfe93fe2f5cb9b71d99f5a126fdef407e2a36bb52d4"},
           {"colormap.json", 608, "10ebff5980dd2afe1a1407dd951d1258dfc95fec51641bab9b4a9b88d76808c5"},
       }},
  };
  return models;
}

namespace {

struct Alias {
  const char *word, *name;
};
constexpr Alias kAliases[] = {
    {"strip", "mindgrab"},         {"tissue-fast", "model5_gw_ae"},    {"tissue-medium", "model11_gw_ae"},
    {"tissue", "model20chan3cls"}, {"subcortical-fast", "model18cls"}, {"subcortical", "model30chan18cls"},
    {"atlas", "model21_104class"}};

}  // namespace

const char* citation_of(const KnownModel& model) {
  return model.name == "mindgrab" ? kMindGrabCitation : kKnownCitation;
}

std::string alias_of(const std::string& name) {
  for (const Alias& alias : kAliases)
    if (name == alias.name) return alias.word;
  return {};
}

std::string name_behind(const std::string& text) {
  std::string small = text;
  for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const KnownModel& known : known_models())
    if (small == known.name) return small;
  std::replace(small.begin(), small.end(), '_', '-');
  for (const Alias& alias : kAliases)
    if (small == alias.word) return alias.name;
  return text;
}

namespace {

void add_text(Sha256& sum, const std::string& text) { sum.add(std::as_bytes(std::span(text.data(), text.size() + 1))); }

// What a step computes: its op, the attributes that all formats give alike, and every tensor. Padding is left out,
// since some formats give numbers and others a rule; names are, since every format has its own.
void add_step(Sha256& sum, const NetworkStep& step) {
  add_text(sum, step.op);
  for (const char* name : {"stride", "dilation"})
    if (step.attrs.has(name)) add_text(sum, cat(name, to_string(step.attrs.integers(name))));
  if (step.attrs.has("groups")) add_text(sum, cat("groups", step.attrs.integer("groups")));
  if (step.attrs.has("eps")) add_text(sum, cat("eps", step.attrs.number("eps")));
  for (const NamedTensor& weight : step.weights) {
    add_text(sum, to_string(weight.tensor->shape));
    sum.add(weight.tensor->data);
  }
}

}  // namespace

std::string weights_sha256(const Model& model) {
  Sha256 sum;
  if (model.onnx) {
    const onnx::ModelFile& file = model.onnx->file;
    sum.add(file.bytes);
    for (const onnx::TensorProto& tensor : file.model.graph.initializers)
      if (tensor.external) sum.add(to_tensor(tensor, file.path, file.external).data);
    return sum.hex();
  }
  for (const NetworkStep& step : model.network->steps())
    if (step.op != "input" && step.op != "pad" && step.op != "softmax") add_step(sum, step);
  return sum.hex();
}

const KnownModel* recognise(const Model& model) {
  if (!model.network) return nullptr;
  for (const KnownModel& known : known_models())
    if (known.parameters == model.parameters && known.weights == weights_sha256(model)) return &known;
  return nullptr;
}

}  // namespace gyrus

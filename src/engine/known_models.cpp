#include "engine/known_models.h"

#include <algorithm>

#include "core/hash.h"
#include "import/network.h"

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
       "063f294ec922fc0fec2c0bb7bcb374a43c9f50a31a83d20e63e427dfbd942ffb",
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
       "ed3c23b1f3531de693dece343a0cb45f89bd795ff63dd48ab59b460d4ade7aa7",
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
       "cd6bd6731132eb75994d7a315742da2a4be1d689abaed26454e09beae54d4844",
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
       "a0338cab3e28154805963415d6a2af57ced23e27afe31382dd7943477001a024",
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
       "89c7b2df3f63cf6cc0412850ef7bbbda6dfbc7bfe4c8975499fc7f8b9fdaea73",
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
       "f9f46b6011d1ff00405de3b3641fb1736ef254092493d63d73f41944984b63b7",
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
       "35c6f60a6d1fcfb2d5a2e52f011e78190031d38f73628418918f97d73b8ec357",
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
  std::string word = text;
  std::replace(word.begin(), word.end(), '_', '-');
  for (const Alias& alias : kAliases)
    if (word == alias.word) return alias.name;
  return text;
}

std::string weights_sha256(const Model& model) {
  Sha256 sum;
  for (const NetworkStep& step : model.network->steps())
    for (const NamedTensor& weight : step.weights)
      if (step.op == "conv") sum.add(weight.tensor->data);
  return sum.hex();
}

const KnownModel* recognise(const Model& model) {
  for (const KnownModel& known : known_models())
    if (known.parameters == model.parameters && known.weights == weights_sha256(model)) return &known;
  return nullptr;
}

}  // namespace gyrus

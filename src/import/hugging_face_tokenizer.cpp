#include <algorithm>
#include <limits>
#include <unordered_map>

#include "import/hugging_face.h"

// tokenizer.json: a vocabulary with merges, and steps before and behind them. Two kinds are read: byte pairs behind
// patterns, and SentencePiece's, which writes unknown characters in bytes.

namespace gyrus {
namespace {

constexpr const char* kKeys = "tokenizer.ggml.";
constexpr int64_t kMostTokens = int64_t{1} << 22;
// What ByteLevel cuts by where it has no pattern before it.
constexpr const char* kWords = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

// A text as a pattern that matches it alone.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// The steps of a pre-tokenizer or normalizer: one, or several in a sequence.
std::vector<JsonObject> steps_of(const JsonObject& file, const std::string& key, const char* list) {
  std::vector<JsonObject> out;
  if (!file.has(key)) return out;
  const JsonObject first = file.object(key);
  if (first.text("type") != "Sequence") return {first};
  for (const Json& step : first.array(list)) out.emplace_back(step, file.subject(), cat("tokenizer.json: ", key));
  return out;
}

class TokenizerReader {
 public:
  explicit TokenizerReader(const HuggingFaceFiles& files)
      : files_(files), file_(files.tokenizer, files.subject, "tokenizer.json"), model_(file_.object("model")) {}

  Metadata read() {
    const std::string type = model_.text("type", "BPE");
    if (type != "BPE") unsupported("a model of the type ", in_quotes(type));
    read_tokens();
    read_merges();
    model_.boolean("byte_fallback", false) ? read_pieces() : read_pairs();
    read_special();
    read_chat();
    std::vector<int64_t> kinds(kinds_.begin(), kinds_.end());
    put("tokens", std::move(tokens_));
    put("token_type", std::move(kinds));
    return std::move(out_);
  }

 private:
  template <class... Args>
  [[noreturn]] void unsupported(const Args&... message) const {
    fail(ErrorCode::Unsupported, files_.subject, "tokenizer.json: gyrus does not know ", message...);
  }
  template <class... Args>
  [[noreturn]] void broken(const Args&... message) const {
    fail(ErrorCode::InvalidModel, files_.subject, "tokenizer.json: ", message...);
  }
  void put(const char* key, GgufValue value) { out_[std::string(kKeys) + key] = std::move(value); }

  void set_token(int64_t id, const std::string& text, int kind) {
    if (id < 0 || id >= kMostTokens) broken("there cannot be a token ", id);
    const auto at = static_cast<size_t>(id);
    if (at >= tokens_.size()) {
      tokens_.resize(at + 1);
      kinds_.resize(at + 1, 5);  // what is not named is not used
    }
    tokens_[at] = text;
    kinds_[at] = kind;
    ids_[text] = id;
  }

  void read_tokens() {
    const JsonObject vocabulary = model_.object("vocab");
    for (auto it = vocabulary.json().begin(); it != vocabulary.json().end(); ++it) {
      if (!it->is_number_integer()) broken("the token ", in_quotes(it.key()), " has no number");
      set_token(it->get<int64_t>(), it.key(), 1);
    }
    if (!file_.has("added_tokens")) return;
    for (const Json& json : file_.array("added_tokens")) {
      const JsonObject token(json, files_.subject, "tokenizer.json: added_tokens");
      const std::string text = token.text("content");
      for (const char* const key : {"lstrip", "rstrip", "single_word"}) {
        if (token.boolean(key, false)) unsupported(in_quotes(key), " of the token ", in_quotes(text));
      }
      set_token(token.integer("id"), text, token.boolean("special", false) ? 3 : 4);
    }
  }

  // "a b" in older files, ["a", "b"] in newer ones.
  void read_merges() {
    for (const Json& merge : model_.array("merges")) {
      const bool pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
      if (!pair && !merge.is_string()) broken("merge ", merges_.size(), " is no pair");
      merges_.push_back(pair ? merge[0].get<std::string>() + " " + merge[1].get<std::string>()
                             : merge.get<std::string>());
    }
  }

  void read_pairs() {
    put("model", std::string("gpt2"));
    std::vector<std::string> patterns;
    bool bytes = false, spaced = false;
    for (const JsonObject& step : steps_of(file_, "pre_tokenizer", "pretokenizers")) {
      const std::string type = step.text("type");
      if (type == "Split") {
        patterns.push_back(pattern_of(step));
      } else if (type == "Digits") {
        patterns.emplace_back(step.boolean("individual_digits", false) ? "\\p{N}" : "\\p{N}+");
      } else if (type == "ByteLevel") {
        bytes = true;
        spaced = step.boolean("add_prefix_space", true);
        if (step.boolean("use_regex", true)) patterns.emplace_back(kWords);
      } else {
        unsupported("the pre-tokenizer ", in_quotes(type));
      }
    }
    if (!bytes) unsupported("byte pairs without the pre-tokenizer 'ByteLevel'");
    for (const JsonObject& step : steps_of(file_, "normalizer", "normalizers")) {
      if (step.text("type") != "NFC") unsupported("the normalizer ", in_quotes(step.text("type")));
      out_["gyrus.tokenizer.composed"] = true;
    }
    out_["gyrus.tokenizer.patterns"] = std::move(patterns);
    out_["gyrus.tokenizer.whole_words"] = model_.boolean("ignore_merges", false);
    put("add_space_prefix", spaced);
    put("merges", std::move(merges_));
  }

  std::string pattern_of(const JsonObject& step) const {
    const JsonObject pattern = step.object("pattern");
    const bool inverted = step.boolean("invert", false);
    const std::string behavior = step.text("behavior");
    // What does not match falls away in the second form: such patterns match everything.
    if (!(behavior == "Isolated" && !inverted) && !(behavior == "Removed" && inverted))
      unsupported("a split of the behavior ", in_quotes(behavior));
    return pattern.has("Regex") ? pattern.text("Regex") : escaped(pattern.text("String"));
  }

  // SentencePiece orders pairs by the scores of what they make: the place of the first merge that makes it.
  void read_pieces() {
    put("model", std::string("llama"));
    std::vector<double> scores(tokens_.size(), -static_cast<double>(std::numeric_limits<int32_t>::max()));
    for (size_t rank = merges_.size(); rank-- > 0;) {
      std::string text = merges_[rank];
      const size_t space = text.find(' ', 1);
      if (space == std::string::npos) broken("merge ", rank, " is no pair");
      const auto id = ids_.find(text.erase(space, 1));
      if (id == ids_.end()) broken("merge ", rank, " makes ", in_quotes(text), ", which is no token");
      scores[static_cast<size_t>(id->second)] = -static_cast<double>(rank);
    }
    put("scores", std::move(scores));
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const std::string& text = tokens_[i];
      if (kinds_[i] == 1 && text.size() == 6 && text.compare(0, 3, "<0x") == 0 && text[5] == '>') kinds_[i] = 6;
    }
    const std::string unknown = model_.text("unk_token", "");
    if (const auto id = ids_.find(unknown); id != ids_.end()) {
      put("unknown_token_id", id->second);
      kinds_[static_cast<size_t>(id->second)] = 2;
    }
    read_spaces();
  }

  // Where the space before a text comes from: a normalizer that prepends it, or Metaspace.
  void read_spaces() {
    bool before = false;
    for (const JsonObject& step : steps_of(file_, "normalizer", "normalizers")) {
      const std::string type = step.text("type");
      if (type == "Prepend" && step.text("prepend") == "\u2581")
        before = true;
      else if (type != "Replace" || step.object("pattern").text("String", "") != " " ||
               step.text("content") != "\u2581")
        unsupported("the normalizer ", in_quotes(type));
    }
    for (const JsonObject& step : steps_of(file_, "pre_tokenizer", "pretokenizers")) {
      if (step.text("type") != "Metaspace" || step.text("replacement") != "\u2581" || step.boolean("split", true))
        unsupported("the pre-tokenizer ", in_quotes(step.text("type")));
      const std::string scheme = step.text("prepend_scheme", "always");
      before = scheme != "never";
      out_["gyrus.tokenizer.space_once"] = scheme == "first";
    }
    put("add_space_prefix", before);
  }

  // A token by its text, which may be an object with it.
  int64_t named(const char* key) const {
    if (!files_.tokenizer_config.is_object()) return -1;
    const auto found = files_.tokenizer_config.find(key);
    if (found == files_.tokenizer_config.end()) return -1;
    std::string text;
    if (found->is_string()) text = found->get<std::string>();
    if (found->is_object() && found->contains("content") && (*found)["content"].is_string())
      text = (*found)["content"].get<std::string>();
    const auto id = ids_.find(text);
    return id == ids_.end() ? -1 : id->second;
  }

  // An id or a list of them.
  std::vector<int64_t> ids_in(const Json& file, const char* key) const {
    std::vector<int64_t> out;
    if (!file.is_object() || !file.contains(key)) return out;
    const Json& value = file[key];
    for (const Json& one : value.is_array() ? value : Json::array({value}))
      if (one.is_number_integer()) out.push_back(one.get<int64_t>());
    return out;
  }

  void read_special() {
    std::vector<int64_t> begin, ends = ids_in(files_.config, "eos_token_id");
    // Where there is a tokenizer_config.json, a token that it does not name is none.
    if (!files_.tokenizer_config.is_object()) begin = ids_in(files_.config, "bos_token_id");
    if (const int64_t id = named("bos_token"); id >= 0) begin = {id};
    const std::vector<int64_t> more = ids_in(files_.generation, "eos_token_id");
    ends.insert(ends.end(), more.begin(), more.end());
    if (const int64_t id = named("eos_token"); id >= 0) ends.insert(ends.begin(), id);
    bool adds_begin = false, adds_end = false;
    read_processor(begin, ends, adds_begin, adds_end);
    if (!begin.empty()) put("bos_token_id", begin[0]);
    if (!ends.empty()) put("eos_token_id", ends[0]);
    out_["gyrus.tokenizer.ends"] = std::move(ends);
    put("add_bos_token", adds_begin);
    put("add_eos_token", adds_end);
  }

  // What comes before and behind a text: the special tokens of a template.
  void read_processor(std::vector<int64_t>& begin, std::vector<int64_t>& ends, bool& adds_begin, bool& adds_end) const {
    for (const JsonObject& step : steps_of(file_, "post_processor", "processors")) {
      const std::string type = step.text("type");
      if (type == "ByteLevel") continue;
      if (type != "TemplateProcessing") unsupported("the post-processor ", in_quotes(type));
      bool behind = false;
      for (const Json& json : step.array("single")) {
        const JsonObject piece(json, files_.subject, "tokenizer.json: post_processor");
        if (piece.has("Sequence")) {
          behind = true;
          continue;
        }
        const std::string text = piece.object("SpecialToken").text("id");
        const auto id = ids_.find(text);
        if (id == ids_.end()) broken("the post-processor names ", in_quotes(text), ", which is no token");
        if ((behind ? adds_end : adds_begin)) unsupported("a post-processor that adds several tokens");
        (behind ? adds_end : adds_begin) = true;
        std::vector<int64_t>& place = behind ? ends : begin;
        place.insert(place.begin(), id->second);
      }
    }
  }

  // One text, or several with names.
  void read_chat() {
    std::string text = files_.chat_template;
    const Json& config = files_.tokenizer_config;
    if (text.empty() && config.is_object() && config.contains("chat_template")) {
      const Json& found = config["chat_template"];
      if (found.is_string()) text = found.get<std::string>();
      for (const Json& one : found.is_array() ? found : Json::array()) {
        const JsonObject named(one, files_.subject, "tokenizer_config.json: chat_template");
        if (named.text("name") == "default") text = named.text("template");
      }
    }
    if (!text.empty()) out_["tokenizer.chat_template"] = text;
  }

  const HuggingFaceFiles& files_;
  JsonObject file_, model_;
  Metadata out_;
  std::vector<std::string> tokens_, merges_;
  std::vector<int> kinds_;  // as GGUF numbers them
  std::unordered_map<std::string, int64_t> ids_;
};

}  // namespace

Metadata hugging_face_tokenizer(const HuggingFaceFiles& files) { return TokenizerReader(files).read(); }

}  // namespace gyrus

#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

// Reading a config strictly. Whatever is wrong with it is InvalidInput("[file] place: …"), with the place as one would
// write it: "data.phantoms.sizes[2]".

namespace gyrus {

// The document in `text`, in which // and /* */ comments may stand. Throws on a key that an object has twice.
nlohmann::json parse_config_json(const std::string& text, const std::string& file);
// The same of TOML.
nlohmann::json parse_config_toml(const std::string& text, const std::string& file);

// An object of the config. Every read notes its key; done() refuses those that nobody read. A null counts as absent.
// The document must outlive it.
class ConfigObject {
 public:
  ConfigObject(const nlohmann::json& json, std::string file, std::string place);

  bool has(const std::string& key) const;
  std::string place(const std::string& key) const;
  const nlohmann::json& at(const std::string& key);  // throws where absent
  ConfigObject object(const std::string& key);       // likewise
  std::string text(const std::string& key);
  std::string text(const std::string& key, const std::string& absent);
  bool flag(const std::string& key, bool absent);
  double number(const std::string& key, double absent, double least, double most);
  std::optional<double> number(const std::string& key, double least, double most);
  int64_t integer(const std::string& key, int64_t absent, int64_t least, int64_t most);
  std::vector<int64_t> integers(const std::string& key, int64_t least, int64_t most);  // one stands for a list of one
  std::vector<double> numbers(const std::string& key, double least, double most);      // likewise
  std::vector<std::string> texts(const std::string& key);                              // likewise
  // One of these words, the first where it is absent; gives its place.
  size_t word(const std::string& key, const std::vector<std::string>& words);
  // Two numbers, the first not above the second; one stands for both.
  std::pair<double, double> range(const std::string& key, std::pair<double, double> absent, double least, double most);

  // Names a key that may be there, for the list of done().
  void expect(const std::string& key) { known_.insert(key); }
  // Throws for the first key that was not read, with those that were asked for.
  void done() const;
  [[noreturn]] void bad(const std::string& key, const std::string& why) const;
  const nlohmann::json& json() const { return *json_; }
  const std::string& file() const { return file_; }

 private:
  const nlohmann::json* find(const std::string& key);

  const nlohmann::json* json_;
  std::string file_, place_;
  std::set<std::string> known_;
};

}  // namespace gyrus

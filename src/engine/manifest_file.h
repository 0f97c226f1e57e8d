#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/manifest.h"

// Reading a gyrus.json (docs/models.md). Whatever is wrong with it is InvalidModel("[file] …"), with the entry's name.

namespace gyrus {

class ManifestFile {
 public:
  ManifestFile(const std::string& text, std::string file);

  // Throws for an entry that no manifest has, and for those of ONNX models unless they may be there.
  void check_keys(bool onnx) const;
  // title, description, licence, citation, labels, components, fill_holes, allow_empty.
  void read_common(Manifest& manifest) const;
  // The names of labels; nothing where they are not given.
  std::optional<std::vector<std::string>> labels() const;

  bool has(const char* key) const { return root_.contains(key); }
  std::string text(const char* key) const;  // empty where it is absent
  bool flag(const char* key) const;         // false where it is absent
  // One of these words, the first where it is absent; gives its place.
  size_t word(const char* key, const std::vector<std::string>& words) const;
  double number(const char* key, double absent, double least, double most) const;
  // Three numbers, or one for all; nothing where it is absent.
  std::optional<std::vector<double>> three(const char* key, double least, double most) const;
  // A list of texts, or one text.
  std::vector<std::string> texts(const char* key) const;
  const nlohmann::json& operator[](const char* key) const { return root_.at(key); }
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  nlohmann::json root_;
  std::string file_;
};

}  // namespace gyrus

#pragma once
#include <string>
#include <vector>

namespace gyrus {

// Text that comes in pieces, up to the first of some texts. What may be the start of one is held back until that is
// known.
class StopTexts {
 public:
  // Empty texts do not count.
  explicit StopTexts(std::vector<std::string> stops);

  // What is certain now.
  std::string push(const std::string& text);
  bool found() const { return found_; }
  // What was held back, once no more comes; nothing where a text was found.
  std::string finish();

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace gyrus

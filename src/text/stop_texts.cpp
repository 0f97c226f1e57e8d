#include "text/stop_texts.h"

#include <algorithm>
#include <utility>

namespace gyrus {

StopTexts::StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {
  stops_.erase(std::remove(stops_.begin(), stops_.end(), std::string()), stops_.end());
}

std::string StopTexts::push(const std::string& text) {
  if (found_) return {};
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    found_ = true;
    return held_.substr(0, first);
  }
  size_t keep = 0;  // bytes at the end that begin a stop
  for (const std::string& stop : stops_) {
    for (size_t size = std::min(stop.size() - 1, held_.size()); size > keep; --size) {
      if (held_.compare(held_.size() - size, size, stop, 0, size) == 0) keep = size;
    }
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string StopTexts::finish() { return found_ ? std::string() : std::exchange(held_, {}); }

}  // namespace gyrus

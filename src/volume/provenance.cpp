#include "volume/provenance.h"

#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace gyrus {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLineRoom = 79;  // of descrip, with a zero behind it

std::string option_of(const Provenance& provenance, const std::string& key) {
  const auto found = provenance.options.find(key);
  return found == provenance.options.end() ? std::string() : found->second;
}

std::string changed_option(const Provenance& made, const Provenance& wanted) {
  for (const auto& [key, value] : wanted.options) {
    const std::string before = option_of(made, key);
    if (before != value && key.ends_with(kHashEnd) && !before.empty())
      return "another content of the scan " + key.substr(0, key.size() - std::string(kHashEnd).size());
    if (before != value)
      return cat("another option ", key, " (", before.empty() ? "not set" : before, ", not ", value, ")");
  }
  for (const auto& [key, value] : made.options)
    if (!wanted.options.count(key)) return cat("another option ", key, " (", value, ", not the default)");
  return {};
}

}  // namespace

Json provenance_object(const Provenance& p) {
  return Json{{"gyrus", p.version},
              {"model", p.model},
              {"weights_sha256", p.weights},
              {"options", p.options},
              {"scan", p.scan},
              {"scan_bytes", p.scan_bytes},
              {"scan_sha256", p.scan_sha256},
              {"device", p.device},
              {"precision", p.precision},
              {"date", p.date}};
}

std::string provenance_json(const Provenance& p) {
  return provenance_object(p).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Provenance> parse_provenance(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  try {
    Provenance p;
    p.version = json.at("gyrus").get<std::string>();
    p.model = json.at("model").get<std::string>();
    p.weights = json.at("weights_sha256").get<std::string>();
    p.options = json.at("options").get<std::map<std::string, std::string>>();
    p.scan = json.at("scan").get<std::string>();
    p.scan_bytes = json.at("scan_bytes").get<uint64_t>();
    p.scan_sha256 = json.at("scan_sha256").get<std::string>();
    p.device = json.at("device").get<std::string>();
    p.precision = json.at("precision").get<std::string>();
    p.date = json.at("date").get<std::string>();
    return p;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string provenance_line(const Provenance& p) {
  const std::string start = cat("gyrus ", p.version, " "),
                    end = cat(" ", p.weights.substr(0, 8), " scan ", p.scan_sha256.substr(0, 8));
  const size_t room = kLineRoom - std::min(kLineRoom, start.size() + end.size());
  return (start + p.model.substr(0, room) + end).substr(0, kLineRoom);
}

std::string date_now() {
  std::time_t now = std::time(nullptr);
  if (const char* const fixed = std::getenv("SOURCE_DATE_EPOCH"); fixed && *fixed)
    now = static_cast<std::time_t>(std::strtoll(fixed, nullptr, 10));
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string difference(const Provenance& made, const Provenance& wanted) {
  if (made.weights != wanted.weights)
    return made.model == wanted.model ? cat("other weights of the model ", wanted.model)
                                      : cat("another model (", made.model, ", not ", wanted.model, ")");
  if (made.scan_bytes != wanted.scan_bytes || made.scan_sha256 != wanted.scan_sha256)
    return made.scan == wanted.scan ? std::string("another content of the scan")
                                    : cat("another scan (", made.scan, ")");
  return changed_option(made, wanted);
}

}  // namespace gyrus

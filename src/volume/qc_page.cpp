#include "volume/qc_page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/error.h"

namespace gyrus {

namespace {

constexpr const char* kStyle = R"css(
:root { color-scheme: dark; --paper: #0e1014; --card: #171a20; --ink: #e1e4e8; --faint: #969ca5; --warn: #ffb454; --bad: #ff6b6b; --good: #7bd88f; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
header { position: sticky; top: 0; z-index: 1; display: flex; flex-wrap: wrap; gap: .6em 1.5em; align-items: baseline; padding: .7em 1.2em; background: #12151aee; border-bottom: 1px solid #2a2f38; }
h1 { font-size: 1.15em; margin: 0; }
header label { color: var(--faint); }
input[type=search] { background: #0b0d10; color: var(--ink); border: 1px solid #333a45; border-radius: 4px; padding: .25em .6em; }
main { max-width: 1320px; margin: 1em auto; padding: 0 1em; }
article { background: var(--card); border: 1px solid #262b33; border-radius: 8px; padding: .9em 1.1em; margin-bottom: 1em; scroll-margin-top: 4em; content-visibility: auto; contain-intrinsic-size: auto 400px; }
article:target, article.current { border-color: #5a7bb8; }
h2 { font-size: 1em; margin: 0 0 .4em; overflow-wrap: anywhere; }
img { max-width: 100%; border-radius: 4px; display: block; }
ul { margin: .2em 0 .6em; padding-left: 1.2em; }
.warn { color: var(--warn); } .bad { color: var(--bad); } .good { color: var(--good); } .faint { color: var(--faint); }
summary { cursor: pointer; color: var(--faint); margin-top: .5em; }
table { border-collapse: collapse; margin-top: .4em; font-variant-numeric: tabular-nums; }
td, th { padding: .15em .9em .15em 0; text-align: right; } td:first-child, th:first-child { text-align: left; }
th { color: var(--faint); font-weight: normal; }
)css";

constexpr const char* kScript = R"js(
const cards = [...document.querySelectorAll('article')];
const text = document.getElementById('text'), look = document.getElementById('look'), shown = document.getElementById('shown');
function filter() {
  let count = 0;
  for (const card of cards) {
    const on = card.dataset.name.toLowerCase().includes(text.value.toLowerCase()) && (!look.checked || card.dataset.look === '1');
    card.hidden = !on;
    count += on;
  }
  shown.textContent = count + ' shown';
}
text.addEventListener('input', filter);
look.addEventListener('change', filter);
let current = null;
document.addEventListener('keydown', (event) => {
  if (event.target === text || (event.key !== 'j' && event.key !== 'k')) return;
  const visible = cards.filter((card) => !card.hidden);
  if (visible.length === 0) return;
  const at = visible.indexOf(current);
  const next = event.key === 'j' ? Math.min(at + 1, visible.length - 1) : Math.max(at - 1, 0);
  if (current) current.classList.remove('current');
  current = visible[next];
  current.classList.add('current');
  current.scrollIntoView();
});
filter();
)js";

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string fixed(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

bool needs_look(const QcEntry& entry) { return !entry.error.empty() || !entry.report.warnings.empty(); }

std::string volumes_table(const Report& report) {
  std::string out = "<details><summary>" + fixed(report.total_mm3 / 1000, 1) + " ml in " +
                    std::to_string(report.labels.size()) + (report.labels.size() == 1 ? " label" : " labels");
  const auto part = [&](const char* name, const std::optional<double>& mm3) {
    if (mm3) out += cat(" &middot; ", name, " ", fixed(*mm3 / 1000, 1), " ml");
  };
  part("grey", report.grey_mm3);
  part("white", report.white_mm3);
  part("CSF", report.csf_mm3);
  out += "</summary><table><tr><th>label</th><th>ml</th><th>voxels</th><th>mean</th><th>SD</th></tr>\n";
  for (const LabelStatistics& label : report.labels)
    out += cat("<tr><td>", escaped(label.name), "</td><td>", fixed(label.mm3 / 1000, 2), "</td><td>", label.voxels,
               "</td><td>", fixed(label.mean, 1), "</td><td>", fixed(label.sd, 1), "</td></tr>\n");
  return out + "</table></details>\n";
}

std::string card(const QcEntry& entry, size_t number) {
  std::string out = cat("<article id=\"scan", number, "\" data-name=\"", escaped(entry.name), "\" data-look=\"",
                        needs_look(entry) ? 1 : 0, "\">\n<h2>", escaped(entry.name), " <span class=\"faint\">",
                        entry.error.empty() ? to_string(entry.report.dims) : std::string(), "</span></h2>\n");
  if (!entry.error.empty()) return out + "<p class=\"bad\">" + escaped(entry.error) + "</p>\n</article>\n";
  if (!entry.report.warnings.empty()) {
    out += "<ul class=\"warn\">\n";
    for (const std::string& warning : entry.report.warnings) out += "<li>" + escaped(warning) + "</li>\n";
    out += "</ul>\n";
  }
  if (!entry.png.empty())
    out += cat("<img loading=\"lazy\" alt=\"slices of ", escaped(entry.name), "\" src=\"data:image/png;base64,",
               base64(entry.png), "\">\n");
  out += volumes_table(entry.report);
  if (const auto& by = entry.report.provenance)
    out += cat("<p class=\"faint\" title=\"", escaped(provenance_json(*by)), "\">gyrus ", escaped(by->version),
               " &middot; ", escaped(by->model), " ", by->weights.substr(0, 8), " &middot; ", escaped(by->precision),
               " on ", escaped(by->device), " &middot; ", escaped(by->date), "</p>\n");
  return out + "</article>\n";
}

}  // namespace

std::string base64(const std::vector<std::byte>& bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t b = 0; b < 3; ++b) word = word << 8 | (i + b < bytes.size() ? static_cast<uint32_t>(bytes[i + b]) : 0u);
    for (size_t d = 0; d < 4; ++d) out += i + d > bytes.size() ? '=' : kDigits[word >> (18 - 6 * d) & 63];
  }
  return out;
}

std::string qc_page(const std::string& title, const std::vector<QcEntry>& entries) {
  const auto failed = std::count_if(entries.begin(), entries.end(), [](const QcEntry& e) { return !e.error.empty(); });
  const auto look = std::count_if(entries.begin(), entries.end(), needs_look) - failed;
  std::string out =
      cat("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
          "content=\"width=device-width\">\n<title>",
          escaped(title), "</title>\n<style>", kStyle, "</style>\n</head>\n<body>\n<header><h1>", escaped(title),
          "</h1><span>", entries.size(), entries.size() == 1 ? " scan" : " scans", " &middot; <span class=\"warn\">",
          look, " with warnings</span> &middot; <span class=\"bad\">", failed, " failed</span></span>\n",
          "<input id=\"text\" type=\"search\" placeholder=\"filter by name\">"
          "<label><input id=\"look\" type=\"checkbox\"> only what needs a look</label>"
          "<span id=\"shown\" class=\"faint\"></span><span class=\"faint\">j / k: next, previous</span>"
          "</header>\n<main>\n");
  size_t pictures = 0;
  for (const QcEntry& entry : entries) pictures += (entry.png.size() + 2) / 3 * 4;
  out.reserve(out.size() + pictures + entries.size() * 4096);
  for (size_t i = 0; i < entries.size(); ++i) out += card(entries[i], i + 1);
  out += cat("</main>\n<script>", kScript, "</script>\n</body>\n</html>\n");
  return out;
}

}  // namespace gyrus

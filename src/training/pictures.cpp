#include "training/pictures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"
#include "train_page_text.h"
#include "volume/picture.h"

namespace gyrus {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

constexpr int kWidth = 900, kHeight = 320, kLeft = 110, kRight = 30, kTop = 50, kBottom = 40;
constexpr size_t kMostPoints = 1500;  // of a curve on the page
constexpr Rgb kPaper{255, 255, 255}, kInk{40, 40, 40}, kFaint{225, 225, 225}, kLossColour{30, 90, 170},
    kDiceColour{0, 0, 0};

std::string number_text(double value) {
  char text[24];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

void line(Image& image, double x0, double y0, double x1, double y1, Rgb colour) {
  const int count = std::max(1, static_cast<int>(std::ceil(std::max(std::abs(x1 - x0), std::abs(y1 - y0)))));
  for (int i = 0; i <= count; ++i) {
    const double t = static_cast<double>(i) / count;
    fill(image, static_cast<int>(std::lround(x0 + t * (x1 - x0))), static_cast<int>(std::lround(y0 + t * (y1 - y0))), 2,
         2, colour);
  }
}

// One set of axes with its curves.
class Panel {
 public:
  Panel(Image& image, int top, const std::string& title, int64_t steps, double low, double high)
      : image_(image), top_(top), steps_(std::max<int64_t>(1, steps)), low_(low), high_(high > low ? high : low + 1) {
    draw_text(image_, kLeft, top_ + 18, title, kInk);
    for (int i = 0; i <= 4; ++i) {
      const double value = low_ + (high_ - low_) * i / 4;
      const int y = static_cast<int>(std::lround(y_of(value)));
      fill(image_, kLeft, y, kWidth - kLeft - kRight, 1, kFaint);
      const std::string text = number_text(value);
      draw_text(image_, kLeft - 10 - text_width(text), y - kGlyphHeight / 2, text, kInk);
    }
    draw_text(image_, kLeft, top_ + kHeight - kBottom + 12, "0", kInk);
    const std::string last = cat("step ", steps_);
    draw_text(image_, kWidth - kRight - text_width(last), top_ + kHeight - kBottom + 12, last, kInk);
  }

  void draw(const std::vector<LogPoint>& points, Rgb colour) {
    for (size_t i = 1; i < points.size(); ++i)
      line(image_, x_of(points[i - 1]), y_of(points[i - 1].value), x_of(points[i]), y_of(points[i].value), colour);
    if (points.size() == 1)
      fill(image_, static_cast<int>(x_of(points[0])) - 2, static_cast<int>(y_of(points[0].value)) - 2, 5, 5, colour);
  }

 private:
  double x_of(const LogPoint& p) const {
    return kLeft + static_cast<double>(p.step) / static_cast<double>(steps_) * (kWidth - kLeft - kRight);
  }
  double y_of(double value) const {
    const double part = std::clamp((value - low_) / (high_ - low_), 0.0, 1.0);
    return top_ + kHeight - kBottom - part * (kHeight - kTop - kBottom);
  }

  Image& image_;
  int top_;
  int64_t steps_;
  double low_, high_;
};

// At most so many points, each the mean of its neighbours.
std::vector<LogPoint> thinned(const std::vector<LogPoint>& points, size_t most) {
  if (points.size() <= most) return points;
  std::vector<LogPoint> out;
  for (size_t i = 0; i < most; ++i) {
    const size_t begin = i * points.size() / most, end = (i + 1) * points.size() / most;
    LogPoint mean{points[end - 1].step, 0};
    for (size_t p = begin; p < end; ++p) mean.value += points[p].value / static_cast<double>(end - begin);
    out.push_back(mean);
  }
  return out;
}

int64_t last_step(const LogCurves& curves) {
  return std::max(curves.loss.empty() ? 0 : curves.loss.back().step, curves.dice.empty() ? 0 : curves.dice.back().step);
}

Json points_json(const std::vector<LogPoint>& points) {
  Json out = Json::array();
  for (const LogPoint& p : thinned(points, kMostPoints)) out.push_back({p.step, p.value});
  return out;
}

Image sample_image(const SamplePicture& sample, const TrainConfig& config) {
  LabelTable table = default_labels(config.classes());
  for (size_t i = 0; i < table.entries.size(); ++i) table.entries[i].name = config.labels[i];
  PictureOptions options;
  options.title = sample.labels ? "truth" : "as the network saw it";
  const Image truth = picture_of_slices(sample.image, sample.truth, table, options);
  if (!sample.labels) return truth;
  options.title = "network";
  const Image made = picture_of_slices(sample.image, *sample.labels, table, options);
  Image both(std::max(truth.width, made.width), truth.height + made.height);
  paste(both, 0, 0, truth);
  paste(both, 0, truth.height, made);
  return both;
}

}  // namespace

Image picture_of_curves(const LogCurves& curves, const std::vector<std::string>& labels, const std::string& title) {
  const bool with_dice = !curves.dice.empty();
  const int legend = with_dice ? 20 * (static_cast<int>(labels.size()) + 1) + 10 : 0;
  Image image(kWidth, kHeight * (with_dice ? 2 : 1) + legend, kPaper);
  const std::vector<LogPoint> loss = thinned(curves.loss, kWidth - kLeft - kRight);
  double low = 0, high = 0;
  for (const LogPoint& p : loss) {
    low = &p == loss.data() ? p.value : std::min(low, p.value);
    high = &p == loss.data() ? p.value : std::max(high, p.value);
  }
  Panel(image, 0, title.empty() ? "loss" : title + ": loss", last_step(curves), std::min(0.0, low), high)
      .draw(loss, kLossColour);
  if (!with_dice) return image;
  Panel dice(image, kHeight, "Dice of the validation", last_step(curves), 0, 1);
  const LabelTable table = default_labels(static_cast<int64_t>(labels.size()));
  int y = 2 * kHeight;
  const auto entry = [&](const std::string& name, double value, Rgb colour) {
    fill(image, kLeft, y + 4, 24, 6, colour);
    draw_text(image, kLeft + 36, y, name + "  " + number_text(value), kInk);
    y += 20;
  };
  for (size_t i = 1; i < curves.dice_of_labels.size() && i < labels.size(); ++i) {
    dice.draw(curves.dice_of_labels[i], table.entries[i].colour);
    entry(labels[i], curves.dice_of_labels[i].back().value, table.entries[i].colour);
  }
  dice.draw(curves.dice, kDiceColour);
  entry("mean", curves.dice.back().value, kDiceColour);
  return image;
}

void write_pictures(const std::string& folder, const TrainConfig& config, const LogCurves& curves,
                    const TrainPictures& pictures, const TrainMoment& at) {
  const auto in = [&](const char* name) { return (fs::path(folder) / name).string(); };
  write_file(in("curves.png"), encode_png(picture_of_curves(curves, config.labels, config.title)));
  if (pictures.sample) write_file(in("sample.png"), encode_small_png(sample_image(*pictures.sample, config)));
  if (pictures.input) write_file(in("input.png"), encode_small_png(sample_image(*pictures.input, config)));
  Json log = {{"title", config.title},
              {"step", at.step},
              {"steps", config.steps},
              {"seconds", at.seconds},
              {"done", at.done},
              {"loss", points_json(curves.loss)},
              {"rate", points_json(curves.rate)},
              {"dice", points_json(curves.dice)},
              {"sample", pictures.sample.has_value()},
              {"input", pictures.input.has_value()}};
  log["labels"] = Json::array();
  for (size_t i = 0; i < curves.dice_of_labels.size(); ++i)
    log["labels"].push_back({{"name", config.labels[i]}, {"dice", points_json(curves.dice_of_labels[i])}});
  write_file(in("log.js"), "show(" + log.dump(-1, ' ', false, Json::error_handler_t::replace) + ");\n");
  std::error_code failed;
  if (!fs::exists(in("train.html"), failed)) write_file(in("train.html"), std::string(kTrainPageText));
}

}  // namespace gyrus

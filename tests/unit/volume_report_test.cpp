#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "unit/volume_support.h"
#include "volume/phantom.h"
#include "volume/picture.h"
#include "volume/qc_page.h"
#include "volume/report.h"

namespace gyrus {
namespace {

using test::expect_error;

// Two labels in a small scan with voxels of 2 mm³.
struct Scene {
  Volume scan{Dims{6, 5, 4}, VoxelType::I16};
  Volume labels{Dims{6, 5, 4}, VoxelType::U8};
  LabelTable table{
      {{0, "background", {}}, {1, "White Matter", {1, 2, 3}}, {2, "Cortex, left", {4, 5, 6}}, {9, "CSF", {}}}};

  Scene() {
    Affine affine;
    affine(2, 2) = 2;
    affine(0, 3) = -10;
    set_affine(scan, affine);
    labels = like(scan, VoxelType::U8);
    scan.slope = 0.5;
    scan.name = "scan.nii";
    put(2, 2, 1, 1, 10);
    put(3, 2, 1, 1, 20);
    put(2, 3, 2, 2, 7);
  }
  void put(int64_t x, int64_t y, int64_t z, uint8_t label, int16_t element) {
    labels.as<uint8_t>()[labels.index(x, y, z)] = label;
    scan.as<int16_t>()[scan.index(x, y, z)] = element;
  }
};

// Volumes above a litre, and intensities, as anyone reads them; JSON without the noise of halves of decimals.
TEST(Report, NumbersAreWrittenInFull) {
  Scene scene;
  Affine affine;
  affine(0, 0) = affine(1, 1) = 1000.125;
  affine(2, 2) = 1.01318359375;
  set_affine(scene.scan, affine);
  set_affine(scene.labels, affine);
  Report report = make_report(scene.scan, scene.labels, scene.table);
  report.labels[0].mean = 1234567.891;
  report.labels[1].mean = 99.267621;
  report.spacing = {0.8799999952316284, 1, 1};
  const std::string table = report_table(report, ',');
  EXPECT_NE(table.find("1,White Matter,2,2026873.811,1234567.891,"), std::string::npos) << table;
  EXPECT_EQ(table.find("e+"), std::string::npos) << table;
  const std::string json = report_json(report);
  EXPECT_NE(json.find("\"mean\": 99.267621,"), std::string::npos) << json;
  EXPECT_NE(json.find("0.88,"), std::string::npos) << json;
}

// What lies around the brain reaches the border and is no part of its volume.
TEST(Report, SkullIsNoBrain) {
  Scene scene;
  Affine affine;
  affine(0, 0) = affine(1, 1) = affine(2, 2) = 80;  // half a litre a voxel
  set_affine(scene.scan, affine);
  set_affine(scene.labels, affine);
  scene.table = {{{0, "background", {}}, {1, "brain", {}}, {2, "brain 2", {}}, {3, "skull", {}}}};
  for (int64_t x = 0; x < 6; ++x) scene.put(x, 0, 0, 3, 5);
  EXPECT_TRUE(make_report(scene.scan, scene.labels, scene.table).warnings.empty());
  scene.table.entries[3].name = "outer";
  EXPECT_EQ(make_report(scene.scan, scene.labels, scene.table).warnings.size(), 2u);
}

TEST(Report, Statistics) {
  const Scene scene;
  const Report report = make_report(scene.scan, scene.labels, scene.table);
  ASSERT_EQ(report.labels.size(), 3u);
  const LabelStatistics& white = report.labels[0];
  EXPECT_EQ(white.voxels, 2);
  EXPECT_DOUBLE_EQ(white.mm3, 4);
  EXPECT_DOUBLE_EQ(white.mean, 7.5);
  EXPECT_DOUBLE_EQ(white.sd, 2.5);
  EXPECT_EQ(white.centroid, (Vec3d{-7.5, 2, 2}));
  EXPECT_DOUBLE_EQ(report.total_mm3, 6);
  EXPECT_DOUBLE_EQ(report.white_mm3.value(), 4);
  EXPECT_DOUBLE_EQ(report.grey_mm3.value(), 2);
  EXPECT_DOUBLE_EQ(report.csf_mm3.value(), 0);
  ASSERT_EQ(report.warnings.size(), 2u);
  EXPECT_NE(report.warnings[0].find("missing: CSF"), std::string::npos);
  EXPECT_NE(report.warnings[1].find("a brain has"), std::string::npos);
}

TEST(Report, Formats) {
  const test::TemporaryFolder folder;
  const Scene scene;
  const Report report = make_report(scene.scan, scene.labels, scene.table);
  const auto json = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(json["labels"][0]["mean"], 7.5);
  EXPECT_EQ(json["totals"]["white_mm3"], 4.0);
  EXPECT_FALSE(json["labels"][2].contains("mean"));
  EXPECT_NE(report_table(report, ',').find("2,\"Cortex, left\",1,2,3.5,0,-8,3,4,scan.nii,,\n"), std::string::npos);
  EXPECT_NE(report_table(report, ',').find("9,CSF,0,0,,,,,,scan.nii,,\n"), std::string::npos);
  EXPECT_NE(report_table(report, '\t').find("2\tCortex, left\t1\t2\t3.5"), std::string::npos);
  for (const char* name : {"a.json", "a.csv", "a.tsv"}) EXPECT_NO_THROW(write_report(folder / name, report));
  expect_error(ErrorCode::InvalidInput, ".json, .csv or .tsv", [&] { write_report(folder / "a.txt", report); });
}

TEST(Report, WarnsOfBordersNaNAndUnknownLabels) {
  Scene scene;
  scene.put(0, 0, 0, 77, 5);
  const Report report = make_report(scene.scan, scene.labels, scene.table);
  EXPECT_EQ(report.labels.back().name, "label 77");
  EXPECT_NE(report.warnings.back().find("border"), std::string::npos);
  Volume floats = like(scene.scan, VoxelType::F32);
  floats.as<float>()[scene.scan.index(2, 2, 1)] = std::numeric_limits<float>::quiet_NaN();
  const Report odd = make_report(floats, scene.labels, scene.table);
  EXPECT_NE(odd.warnings.back().find("finite"), std::string::npos);
  EXPECT_TRUE(std::isfinite(odd.labels[0].mean));
  const Report empty = make_report(scene.scan, like(scene.scan, VoxelType::U8), scene.table);
  EXPECT_EQ(empty.warnings, std::vector<std::string>{"no voxel has a label"});
  expect_error(ErrorCode::InvalidInput, "the scan", [&] {
    make_report(scene.scan, Volume({1, 1, 1}, VoxelType::U8), scene.table);
  });
}

TEST(QcPage, IsSelfContainedAndEscaped) {
  const Phantom phantom = make_phantom({{32, 32, 32}, 1});
  MosaicOptions small;
  small.columns = 2;
  small.tile_height = 60;
  QcEntry good{"sub-01 <T1w>", encode_png(picture_mosaic(phantom.image, phantom.truth, phantom_labels(), small)),
               make_report(phantom.image, phantom.truth, phantom_labels()), ""};
  QcEntry bad{"sub-02", {}, {}, "[sub-02.nii] is cut off"};
  const std::string page = qc_page("Study & pilot", {good, bad});
  EXPECT_NE(page.find("sub-01 &lt;T1w&gt;"), std::string::npos);
  EXPECT_NE(page.find("Study &amp; pilot"), std::string::npos);
  EXPECT_NE(page.find("1 failed"), std::string::npos);
  EXPECT_NE(page.find("data:image/png;base64,iVBORw0KGgo"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos) << "nothing may be loaded from elsewhere";
}

TEST(QcPage, Base64) {
  const auto encode = [](const std::string& text) {
    std::vector<std::byte> bytes;
    for (char c : text) bytes.push_back(static_cast<std::byte>(c));
    return base64(bytes);
  };
  EXPECT_EQ(encode(""), "");
  EXPECT_EQ(encode("f"), "Zg==");
  EXPECT_EQ(encode("fo"), "Zm8=");
  EXPECT_EQ(encode("foo"), "Zm9v");
  EXPECT_EQ(encode("foobar"), "Zm9vYmFy");
}

}  // namespace
}  // namespace gyrus

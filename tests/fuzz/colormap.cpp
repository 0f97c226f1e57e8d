#include "fuzz/fuzz.h"
#include "volume/labels.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  return gyrus::fuzz::expect_only_errors([&] {
    const gyrus::LabelTable table = gyrus::parse_colormap(text, "file");
    gyrus::itksnap_table(table);
    gyrus::freesurfer_table(table);
    gyrus::sidecar_json(table);
  });
}

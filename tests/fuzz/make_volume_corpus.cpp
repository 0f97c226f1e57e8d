#include <iostream>

#include "volume/bytes.h"
#include "volume/gzip.h"
#include "volume/io.h"
#include "volume/mgh.h"
#include "volume/nifti.h"

// Writes the seeds of the fuzzers of src/volume into FOLDER/TARGET/. They are committed; run this again only when
// formats are added.

using namespace gyrus;

namespace {

using Bytes = std::vector<std::byte>;

Bytes nifti(VoxelType type, Dims dims = {4, 3, 2}) {
  Volume volume(dims, type);
  for (size_t i = 0; i < volume.data.size(); ++i) volume.data[i] = static_cast<std::byte>(i % 61);
  set_affine(volume, {});
  return encode_nifti(volume);
}

Bytes four_dimensional() {
  Bytes file = nifti(VoxelType::U8, {3, 2, 8});
  store(file.data(), 40, int16_t{4});
  store(file.data(), 46, int16_t{4});
  store(file.data(), 48, int16_t{2});
  return file;
}

Bytes mgh() {
  Bytes file(kMghHeaderBytes + 4 * 3 * 2);
  const int32_t header[] = {1, 4, 3, 2, 1, 0, 0};
  for (size_t i = 0; i < 7; ++i) file[4 * i + 3] = static_cast<std::byte>(header[i]);
  for (size_t i = kMghHeaderBytes; i < file.size(); ++i) file[i] = static_cast<std::byte>(i % 61);
  return file;
}

Bytes pair(Bytes file) {
  const size_t header = load<int32_t>(file.data(), 0, false) == 348 ? 348 : 540;
  file[header == 348 ? 345 : 5] = std::byte{'i'};
  Bytes out{header == 348 ? std::byte{0} : std::byte{1}};
  out.insert(out.end(), file.begin(), file.begin() + static_cast<long>(header));
  out.insert(out.end(), file.begin() + static_cast<long>(header) + 4, file.end());
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "make_volume_corpus FOLDER\n";
    return 2;
  }
  const std::string root = argv[1];
  write_file(root + "/volume/uint8", nifti(VoxelType::U8));
  write_file(root + "/volume/float64", nifti(VoxelType::F64));
  write_file(root + "/volume/int16_gz", gzip(nifti(VoxelType::I16)));
  write_file(root + "/volume/four_dimensional", four_dimensional());
  write_file(root + "/volume/nifti2_gz", gzip(nifti(VoxelType::U8, {32768, 2, 2})));
  write_file(root + "/volume/mgh", mgh());
  write_file(root + "/volume/mgz", gzip(mgh()));
  write_file(root + "/volume_pair/nifti1", pair(nifti(VoxelType::I16)));
  write_file(root + "/colormap/three",
             std::string(R"({"R":[0,1,2],"G":[0,1,2],"B":[0,1,2],"I":[0,4,5],"labels":["none","a","b"]})"));
}

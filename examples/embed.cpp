#include <gyrus/gyrus.h>

#include <algorithm>
#include <fstream>
#include <iostream>

int main(int, char** argv) try {  // embed MODEL SIDE VOXELS
  const int64_t side = std::stol(argv[2]);
  std::vector<char> head(static_cast<size_t>(side * side * side));  // bytes, x fastest
  std::ifstream(argv[3], std::ios::binary).read(head.data(), static_cast<std::streamsize>(head.size()));
  gyrus::Segmenter segmenter(argv[1], {side, side, side});
  const auto labels = segmenter.run({reinterpret_cast<const uint8_t*>(head.data()), head.size()});
  std::cout << std::count(labels.begin(), labels.end(), 1) << " voxels of class 1, found in " << segmenter.gpu_seconds()
            << " s on " << segmenter.device() << "\n";
} catch (const gyrus::Error& error) {
  return std::cerr << error.what() << "\n", 1;
}

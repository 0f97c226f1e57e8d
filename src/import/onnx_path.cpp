#include "import/onnx_path.h"

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/files.h"

namespace gyrus::onnx {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> read_part(const fs::path& path, uint64_t offset, uint64_t length) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error) fail(ErrorCode::Io, path.string(), "cannot be read: ", error.message());
  if (offset > size || length > size - offset)
    fail(ErrorCode::InvalidModel, path.string(), "has ", size, " bytes; the model wants ", length, " from ", offset,
         " on");
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(offset));
  std::vector<std::byte> bytes(static_cast<size_t>(length));
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(length));
  if (!in) fail(ErrorCode::Io, path.string(), "cannot be read");
  return bytes;
}

// model.onnx, else the only file of the folder that is called so.
fs::path file_in(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "model.onnx", error)) return folder / "model.onnx";
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".onnx") found.push_back(entry.path());
  return found.size() == 1 ? found[0] : folder / "model.onnx";
}

}  // namespace

std::optional<ModelFile> open_model(const std::string& given) {
  std::error_code error;
  fs::path path(given);
  if (fs::is_directory(path, error)) path = file_in(path);
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  // The first bytes tell most files apart; only what may be one is read as a whole.
  ModelFile file;
  file.path = path.string();
  file.bytes = read_file(file.path);
  if (!is_onnx(bytes_of(file.bytes))) return std::nullopt;
  file.model = read_model(bytes_of(file.bytes), file.path);
  const fs::path folder = path.parent_path();
  file.external = [folder](const std::string& location, uint64_t offset, uint64_t length) {
    return read_part(folder / location, offset, length);
  };
  return file;
}

}  // namespace gyrus::onnx

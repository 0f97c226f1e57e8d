#include "web_files.h"

#include <cstdlib>
#include <vector>

#include "core/error.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> candidates() {
  const char* const given = std::getenv("GYRUS_WEB_DIR");
  if (given && *given) return {given};
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (failed) return {};
  const fs::path folder = program.parent_path();
  return {folder / "web",                 // a bundle
          folder / "../share/gyrus/web",  // an installation
          folder / "../../../web/dist"};  // build/NAME/bin
}

}  // namespace

fs::path web_part(const std::string& part) {
  std::error_code failed;
  for (const fs::path& folder : candidates())
    if (fs::exists(folder / part, failed)) return (folder / part).lexically_normal();
  fail(ErrorCode::Io, "web", part,
       " is not beside this program: build it with 'make web' in gyrus's source, or name the folder that holds it in "
       "GYRUS_WEB_DIR");
}

}  // namespace gyrus::cli

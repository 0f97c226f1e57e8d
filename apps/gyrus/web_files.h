#pragma once
#include <filesystem>
#include <string>

// The built parts of web/: data beside the program, since building them needs tools that the program does not.
//   gyrus.js, gyrus.d.ts   the executor as one ES module
//   example/               the page that `gyrus export` puts beside a plan
//   page/                  the page that `gyrus web` serves

namespace gyrus::cli {

// The path of `part`, which is such a file or folder, in $GYRUS_WEB_DIR, else where a bundle, an installation or the
// build tree has it. Throws Io, saying how to get it, where there is none.
std::filesystem::path web_part(const std::string& part);

}  // namespace gyrus::cli

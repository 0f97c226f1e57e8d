#pragma once
#include <memory>
#include <string>

#include "gyrus/text.h"
#include "text_service.h"

namespace gyrus::cli {

// A generator on a device as a service; `path` is the file that it was made from.
std::unique_ptr<TextService> make_service(TextGenerator generator, const std::string& path);

}  // namespace gyrus::cli

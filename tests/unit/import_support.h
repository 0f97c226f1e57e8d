#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/tensor.h"
#include "import/network.h"
#include "support/model_writer.h"

// What the tests of the importers share: checking errors, and damaging files.

namespace gyrus::test {

// The ops of a network in the order of its steps, without its input.
inline std::vector<std::string> ops(const Network& network) {
  std::vector<std::string> out;
  for (size_t i = 1; i < network.steps().size(); ++i) out.push_back(network.steps()[i].op);
  return out;
}

// Runs `action`, which must throw Error of that code, on one line that starts with "[" and holds `part`.
inline void expect_error(ErrorCode code, const std::string& part, const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "no error; wanted one with \"" << part << "\"";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_STREQ(to_string(error.code()), to_string(code)) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nwanted: " << part;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_EQ(message.substr(0, 1), "[") << message;
  }
}

// `read` must refuse every proper prefix of the file with an Error.
inline void expect_every_truncation_refused(const ByteVector& file,
                                            const std::function<void(const ByteVector&)>& read) {
  for (size_t size = 0; size < file.size(); ++size) {
    const ByteVector part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(read(part), Error) << "cut to " << size << " of " << file.size() << " bytes";
  }
}

// With any one byte changed, `read` must either throw Error or return; anything else escapes and fails the test.
inline void read_every_damage(const ByteVector& file, const std::function<void(const ByteVector&)>& read) {
  for (size_t at = 0; at < file.size(); ++at) {
    for (const unsigned mask : {0x01u, 0x80u, 0xffu}) {
      ByteVector damaged = file;
      damaged[at] ^= static_cast<std::byte>(mask);
      try {
        read(damaged);
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace gyrus::test

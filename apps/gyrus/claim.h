#pragma once
#include <string>

namespace gyrus::cli {

// Says to other processes, on this machine or on others with the same folder, that this one makes a file: FILE.claim
// beside it, which only one of them can create. It goes with the object. One that was left behind is taken over: at
// once where its process was of this machine (or container), else when nobody has set its time for ten minutes, which
// holders do every minute. $GYRUS_CLAIM_SECONDS is another time than a minute, the same for all of them.
class Claim {
 public:
  Claim() = default;
  explicit Claim(const std::string& file);
  Claim(Claim&& other) noexcept;
  Claim& operator=(Claim&& other) noexcept;
  ~Claim() { release(); }

  bool is_ours() const { return !path_.empty(); }
  // Who has it where it is not ours: "HOST, process 123".
  const std::string& owner() const { return owner_; }
  void release();

  // Removes what a process that is gone left; true where another one holds the file.
  static bool is_held(const std::string& file);

 private:
  std::string path_, owner_;
};

}  // namespace gyrus::cli

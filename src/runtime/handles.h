#pragma once
#include <webgpu/webgpu.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

// Move-only owners of WebGPU objects. Each type counts its live objects, so that tests can show that none leaks.

namespace gyrus {

template <class T>
struct HandleTraits;

#define GYRUS_HANDLE(Name)                                                           \
  template <>                                                                        \
  struct HandleTraits<WGPU##Name> {                                                  \
    static constexpr const char* kName = #Name;                                      \
    static inline std::atomic<int64_t> live{0};                                      \
    static void release(WGPU##Name object) noexcept { wgpu##Name##Release(object); } \
  }
GYRUS_HANDLE(Instance);
GYRUS_HANDLE(Adapter);
GYRUS_HANDLE(Device);
GYRUS_HANDLE(Queue);
GYRUS_HANDLE(Buffer);
GYRUS_HANDLE(BindGroup);
GYRUS_HANDLE(BindGroupLayout);
GYRUS_HANDLE(PipelineLayout);
GYRUS_HANDLE(ShaderModule);
GYRUS_HANDLE(ComputePipeline);
GYRUS_HANDLE(CommandEncoder);
GYRUS_HANDLE(CommandBuffer);
GYRUS_HANDLE(ComputePassEncoder);
GYRUS_HANDLE(QuerySet);
#undef GYRUS_HANDLE

// Owns one reference to a WebGPU object, or nothing.
template <class T>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T object) : object_(object) {
    if (object_) ++HandleTraits<T>::live;
  }
  Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      object_ = std::exchange(other.object_, nullptr);
    }
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { reset(); }

  void reset() noexcept {
    if (!object_) return;
    HandleTraits<T>::release(std::exchange(object_, nullptr));
    --HandleTraits<T>::live;
  }
  T get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T object_ = nullptr;
};

inline WGPUStringView to_view(std::string_view text) { return {text.data(), text.size()}; }

// The text of a message from the API, on one line.
inline std::string to_line(WGPUStringView view) {
  if (!view.data) return {};
  std::string text = view.length == WGPU_STRLEN ? std::string(view.data) : std::string(view.data, view.length);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::string line;
  for (char c : text) {
    const bool blank = c == '\n' || c == '\t' || c == '\r' || c == ' ';
    if (!blank) line += c;
    if (blank && !line.empty() && line.back() != ' ') line += ' ';
  }
  return line;
}

}  // namespace gyrus

// Exceptions with several threads. Code that clang 14 compiles for WebAssembly speaks with the C++ library's
// personality through a variable that all threads share, while the library for threads has one for each thread: neither
// finds what the other wrote. This stands in the library's place, on the shared variable, and lets one thread at a time
// be between a throw and its handler.

#include <atomic>
#include <cstdint>

namespace {

// As the code that catches lays it out.
struct LandingPad {
  uintptr_t index, table;  // what is asked: which landing pad of which function's table
  uintptr_t selector;      // what is answered: which of its handlers
};

constexpr int kSelector = 1;        // the register of the Itanium ABI that means it
constexpr int kCleanupPhase = 2;    // _UA_CLEANUP_PHASE: the machine itself unwinds, so there is no other
constexpr int kForeignCaught = 1;   // _URC_FOREIGN_EXCEPTION_CAUGHT
constexpr uintptr_t kFirstPad = 2;  // the library counts from 1, and from behind a call

struct Exception {
  uint64_t kind;
  void (*cleanup)(int reason, Exception*);
};

std::atomic<const void*> owner{nullptr};
thread_local int depth = 0;  // of throws that have no handler yet, one in a destructor of another

void enter() {
  const void* free = nullptr;
  while (depth == 0 && !owner.compare_exchange_weak(free, &depth)) free = nullptr;
  ++depth;
}

void leave() {
  if (depth > 0 && --depth == 0) owner = nullptr;
}

}  // namespace

extern "C" {

LandingPad __wasm_lpad_context;

int __gxx_personality_wasm0(int version, int actions, uint64_t kind, Exception* exception, LandingPad* context);

int _Unwind_CallPersonality(void* thrown) {
  auto* exception = static_cast<Exception*>(thrown);
  __wasm_lpad_context.selector = 0;
  return __gxx_personality_wasm0(1, kCleanupPhase, exception->kind, exception, &__wasm_lpad_context);
}

int _Unwind_RaiseException(Exception* exception) {
  enter();
  __builtin_wasm_throw(0, exception);
}

void _Unwind_DeleteException(Exception* exception) {
  if (exception->cleanup) exception->cleanup(kForeignCaught, exception);
}

void _Unwind_SetGR(LandingPad* context, int which, uintptr_t value) {
  if (which == kSelector) context->selector = value;
}
void _Unwind_SetIP(LandingPad*, uintptr_t) {}
uintptr_t _Unwind_GetIP(LandingPad* context) { return context->index + kFirstPad; }
uintptr_t _Unwind_GetLanguageSpecificData(LandingPad* context) { return context->table; }
uintptr_t _Unwind_GetRegionStart(LandingPad*) { return 0; }

// The handler has been found when it begins (linked with --wrap).
void* __real___cxa_begin_catch(void* exception);
void* __wrap___cxa_begin_catch(void* exception) {
  leave();
  return __real___cxa_begin_catch(exception);
}

}  // extern "C"

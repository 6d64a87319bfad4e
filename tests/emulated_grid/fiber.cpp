#include "tests/emulated_grid/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace troupe::emulated_grid {
namespace {

constexpr std::size_t kGuard = 4096;
constexpr std::size_t kStack = 128 * 1024;

// AddressSanitizer must know which stack is in use: `fake` keeps what it moved off the stack that
// is left, and is null where that stack is left for good.
#if defined(__SANITIZE_ADDRESS__)
void leave(void** fake, const void* next, std::size_t bytes) {
  __sanitizer_start_switch_fiber(fake, next, bytes);
}
void arrive(void* fake, const void** last, std::size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake, last, bytes);
}
#else
[[maybe_unused]] void leave(void**, const void*, std::size_t) {}
void arrive(void*, const void**, std::size_t*) {}
#endif

}  // namespace

Fiber::Fiber() {
  void* memory = mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
  mprotect(memory_, kGuard, PROT_NONE);
  getcontext(&self_);
  self_.uc_stack.ss_sp = memory_ + kGuard;
  self_.uc_stack.ss_size = kStack;
  const auto address = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&self_, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
              static_cast<unsigned>(address), static_cast<unsigned>(address >> 32));
}

Fiber::~Fiber() {
  closing_ = true;
  resume();
  munmap(memory_, kGuard + kStack);
}

void Fiber::start(Body body, void* argument) {
  body_ = body;
  argument_ = argument;
}

// A context is entered once; from then on the two sides jump, because swapcontext() makes a system
// call each time, for the mask of signals. The sanitizers know contexts, but not such jumps.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
void Fiber::resume() {
  void* fake = nullptr;
  leave(&fake, memory_ + kGuard, kStack);
  swapcontext(&caller_, &self_);
  arrive(fake, nullptr, nullptr);
}

void Fiber::pause() {
  void* fake = nullptr;
  leave(&fake, caller_stack_, caller_bytes_);
  swapcontext(&self_, &caller_);
  arrive(fake, &caller_stack_, &caller_bytes_);
}

void Fiber::leave_for_good() {
  leave(nullptr, caller_stack_, caller_bytes_);
  setcontext(&caller_);
}
#else
void Fiber::resume() {
  if (_setjmp(caller_jump_) != 0) return;
  if (entered_) _longjmp(self_jump_, 1);
  entered_ = true;
  setcontext(&self_);
}

void Fiber::pause() {
  if (_setjmp(self_jump_) == 0) _longjmp(caller_jump_, 1);
}

void Fiber::leave_for_good() {
  _longjmp(caller_jump_, 1);
}
#endif

void Fiber::enter(unsigned low, unsigned high) {
  reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32 | low)->run();
}

void Fiber::run() {
  arrive(nullptr, &caller_stack_, &caller_bytes_);
  while (!closing_) {
    body_(argument_);
    pause();
  }
  leave_for_good();
}

}  // namespace troupe::emulated_grid

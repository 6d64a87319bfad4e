#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>

namespace troupe::emulated_grid {

/// A stack of its own on which a function runs that can pause, and be resumed where it was. Used by
/// one operating-system thread at a time, and while its body runs by the same one. Below the stack
/// lies a page that nobody may touch.
class Fiber {
 public:
  using Body = void (*)(void* argument);

  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  /// The body has ended, or was never resumed.
  ~Fiber();

  /// Makes the next resume() call body(argument), which must not throw. The body before has ended.
  void start(Body body, void* argument);
  /// Runs the body until it pauses or ends.
  void resume();
  /// Called by the body: goes back to the caller of resume().
  void pause();

 private:
  static void enter(unsigned low, unsigned high);
  void run();
  void leave_for_good();

  ucontext_t self_, caller_;
  jmp_buf self_jump_, caller_jump_;
  bool entered_ = false;
  std::byte* memory_ = nullptr;  // the page and the stack
  Body body_ = nullptr;
  void* argument_ = nullptr;
  bool closing_ = false;
  // What AddressSanitizer asks for at each switch.
  const void* caller_stack_ = nullptr;
  std::size_t caller_bytes_ = 0;
};

}  // namespace troupe::emulated_grid

#pragma once

#include <initializer_list>

namespace troupe::launch {

/// A descriptor by which a program of one thread can poll() for signals. The signals stay blocked
/// from the construction on.
class SignalFd {
 public:
  explicit SignalFd(std::initializer_list<int> signals);
  SignalFd(const SignalFd&) = delete;
  ~SignalFd();

  int fd() const { return fd_; }
  /// Takes the number of the next signal that has arrived; 0 if none has.
  int take();

 private:
  int fd_ = -1;
};

}  // namespace troupe::launch

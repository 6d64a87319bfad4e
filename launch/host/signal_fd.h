#pragma once

#include <initializer_list>

namespace troupe::launch {

/// Signals as something to poll() for, in a program of one thread: they are blocked from then on.
class SignalFd {
 public:
  explicit SignalFd(std::initializer_list<int> signals);
  SignalFd(const SignalFd&) = delete;
  ~SignalFd();

  int fd() const { return fd_; }
  /// The next signal that has come; 0 if none has.
  int take();

 private:
  int fd_ = -1;
};

}  // namespace troupe::launch

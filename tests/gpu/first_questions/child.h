#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace troupe::test {

/// One end of a socket between two processes. Every call throws std::runtime_error if the other end
/// is gone, or says nothing for a minute.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}
  Line(const Line&) = delete;
  ~Line();

  template <typename T>
  void send(const T& value) {
    send_bytes(&value, sizeof value);
  }
  template <typename T>
  T receive() {
    T value;
    receive_bytes(&value, sizeof value);
    return value;
  }

 private:
  void send_bytes(const void* data, std::size_t bytes);
  void receive_bytes(void* data, std::size_t bytes);

  int fd_;
};

/// A forked process that runs a function, whose exceptions it prints, with the other end of `line`.
/// The parent never calls CUDA, because a process that did could not fork others that do.
class Child {
 public:
  explicit Child(const std::function<void(Line& parent)>& body);
  Child(const Child&) = delete;
  /// Kills the process if it still runs.
  ~Child();

  Line& line() { return *line_; }
  void kill();
  /// Waits for the end and returns the exit code; 128 + n if signal n ended it.
  int wait();

 private:
  pid_t pid_ = -1;
  std::unique_ptr<Line> line_;
};

}  // namespace troupe::test

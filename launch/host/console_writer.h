#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

namespace troupe::launch {

/// The console of a run. A thread of its own writes the lines in order, so that a terminal that is
/// held (Ctrl-S) or a pipe that no process reads stops neither the run nor its files nor its end.
class ConsoleWriter {
 public:
  /// The largest number of messages that wait for the reader. Beyond it the oldest are dropped, and
  /// a line tells how many.
  static constexpr std::size_t kMaxWaiting = 1000;
  /// How long finish() waits for a reader that takes nothing.
  static constexpr std::chrono::seconds kEndTimeout{1};

  explicit ConsoleWriter(int out = 1, int err = 2);
  ~ConsoleWriter();
  ConsoleWriter(const ConsoleWriter&) = delete;

  /// From now on every line begins with the local time at which it was queued and its zone, as
  /// "2026-01-31 12:00:00+0100 ".
  void stamp_lines() { stamps_ = true; }
  /// Queues whole lines, with their ends, for standard output. Callable from any thread; never
  /// blocks.
  void show(std::string lines);
  /// Queues a line for standard error that begins with the program's name.
  void print_error(const std::string& text);
  /// Returns when all is written, or drops the rest once the reader has taken nothing for
  /// kEndTimeout. Nothing may be queued afterwards.
  void finish();
  /// Whether the system has refused to write some of the text for standard output.
  bool has_failed() const;

 private:
  struct Text {
    int fd = 0;
    std::string bytes;
  };
  void add(Text text);
  void loop();
  void write(const Text& text);
  bool wait_for_room(int fd);

  const int out_, err_;  ///< owned descriptors, not blocking if the system allows it
  int quit_fd_ = -1;     ///< becomes readable when the thread must leave any wait
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Text> waiting_;
  std::size_t dropped_ = 0;
  std::size_t progress_ = 0;  ///< bytes written so far
  bool ending_ = false;
  bool is_done_ = false;
  std::atomic<bool> stamps_ = false;
  bool has_failed_ = false;
  std::thread thread_;
};

}  // namespace troupe::launch

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

namespace troupe::launch {

/// The console of a run. A thread of its own writes the lines, in order: a terminal that is held
/// (Ctrl-S) or a pipe that nobody reads stops neither the run nor its files nor its end.
class ConsoleWriter {
 public:
  /// Messages that wait for the reader; beyond it the oldest are dropped, and a line tells how
  /// many.
  static constexpr std::size_t kMaxWaiting = 1000;
  /// How long the end waits for a reader who takes nothing.
  static constexpr std::chrono::seconds kEndTimeout{1};

  explicit ConsoleWriter(int out = 1, int err = 2);
  ~ConsoleWriter();
  ConsoleWriter(const ConsoleWriter&) = delete;

  /// For standard output: whole lines with their ends. For any thread; never blocks.
  void show(std::string lines);
  /// For standard error, as a line that begins with the program's name.
  void print_error(const std::string& text);
  /// Returns when all is written, or drops the rest once the reader has taken nothing for
  /// kEndTimeout. Nothing may be shown after.
  void finish();
  /// Something shown could not be written to standard output: the system refused it.
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

  const int out_, err_;  ///< own, not blocking where the system allows it
  int quit_fd_ = -1;     ///< readable once the thread must leave any wait
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Text> waiting_;
  std::size_t dropped_ = 0;
  std::size_t progress_ = 0;  ///< bytes written
  bool ending_ = false;
  bool is_done_ = false;
  bool has_failed_ = false;
  std::thread thread_;
};

}  // namespace troupe::launch

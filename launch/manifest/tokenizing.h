#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "launch/host/signals.h"
#include "stages/token_data.h"

namespace troupe::launch {

/// Progress output and signal handling while text is tokenized. Standard error shows how much is
/// done: continuously on a terminal, else with a line every ten seconds. The first signal ends the
/// work with an Error{retry} and leaves no file behind; a second one ends the process.
class Tokenizing {
 public:
  /// Sets the watch's orders for its lifetime. The watch must outlive it.
  explicit Tokenizing(SignalWatch& signals);
  Tokenizing(const Tokenizing&) = delete;
  ~Tokenizing();

  /// Options that encode with as many threads as this process may use and report progress here.
  stages::EncodeOptions options();

 private:
  using Clock = std::chrono::steady_clock;
  void progress(std::uint64_t done, std::uint64_t total);
  void show(std::uint64_t done, std::uint64_t total);

  SignalWatch& signals_;
  const bool terminal_;
  const int threads_;
  std::atomic<bool> stopped_ = false;
  std::string reason_;  ///< written before stopped_ is set
  Clock::time_point begin_ = Clock::now();
  Clock::time_point shown_ = begin_;
};

}  // namespace troupe::launch

#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "launch/host/signals.h"
#include "stages/token_data.h"

namespace troupe::launch {

/// What a person sees of text that is turned into tokens, and can do about it. On a terminal
/// standard error shows how much is done, else a line each ten seconds. The first signal ends the
/// work with an Error{retry} that leaves no file behind, a second one the process.
class Tokenizing {
 public:
  /// Takes the watch's orders while it lives; the watch outlives it.
  explicit Tokenizing(SignalWatch& signals);
  Tokenizing(const Tokenizing&) = delete;
  ~Tokenizing();

  /// Encodes with as many threads as this process may use.
  stages::EncodeOptions options();

 private:
  using Clock = std::chrono::steady_clock;
  void progress(std::uint64_t done, std::uint64_t total);
  void show(std::uint64_t done, std::uint64_t total);

  SignalWatch& signals_;
  const bool terminal_;
  const int threads_;
  std::atomic<bool> stopped_ = false;
  std::string reason_;  ///< set before stopped_
  Clock::time_point begin_ = Clock::now();
  Clock::time_point shown_ = begin_;
};

}  // namespace troupe::launch

#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "launch/host/signals.h"
#include "stages/corpus/token_data.h"

namespace troupe::launch {

/// A progress_line() and signal handling while text is tokenized. The first signal ends the work
/// with an Error{retry} and leaves no file behind; a second one ends the process.
class Tokenizing {
 public:
  enum class Quiet { no, yes };
  /// Sets the watch's orders for its lifetime. The watch must outlive it.
  explicit Tokenizing(SignalWatch& signals, Quiet quiet = Quiet::no);
  Tokenizing(const Tokenizing&) = delete;
  ~Tokenizing();

  /// Options that encode with as many threads as this process may use (Machine::free_threads) and
  /// report progress here. What they warn of is printed in the end.
  stages::EncodeOptions options();

 private:
  void progress(std::uint64_t done, std::uint64_t total);

  SignalWatch& signals_;
  const int threads_;
  const Quiet quiet_;
  std::atomic<bool> stopped_ = false;
  std::string reason_;  ///< written before stopped_ is set
  stages::Progress line_;
  std::vector<std::string> warnings_;
};

}  // namespace troupe::launch

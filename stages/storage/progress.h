#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace troupe::stages {

/// How much of a long work is done, in bytes. Called now and then, and at the end with both numbers
/// equal, from the thread that asked for the work. An exception from it ends the work. May be
/// empty.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Adds up what the parts of a work have done, in whatever threads, and reports it from the thread
/// that made the object.
class ProgressSum {
 public:
  /// `progress` outlives it.
  ProgressSum(const Progress& progress, std::uint64_t total) : progress_(progress), total_(total) {}
  void add(std::uint64_t done) {
    done_ += done;
    if (std::this_thread::get_id() == reporter_) report();
  }
  /// Reports what other threads have added since the last report. Called in the thread that made
  /// the object, once those have ended.
  void finish() {
    if (done_ != reported_) report();
  }

 private:
  void report() {
    reported_ = done_;
    if (progress_) progress_(reported_, total_);
  }

  const Progress& progress_;
  const std::uint64_t total_;
  const std::thread::id reporter_ = std::this_thread::get_id();
  std::atomic<std::uint64_t> done_ = 0;
  std::uint64_t reported_ = 0;  ///< of done_
};

}  // namespace troupe::stages

#pragma once

#include <cstdint>
#include <functional>

namespace troupe::stages {

/// How much of a long work is done, in bytes. Called now and then, and at the end with both numbers
/// equal, from the thread that asked for the work. An exception from it ends the work. May be
/// empty.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Adds up what the parts of a work have done, and reports it.
class ProgressSum {
 public:
  /// `progress` outlives it.
  ProgressSum(const Progress& progress, std::uint64_t total) : progress_(progress), total_(total) {}
  void add(std::uint64_t done) {
    done_ += done;
    if (progress_) progress_(done_, total_);
  }

 private:
  const Progress& progress_;
  const std::uint64_t total_;
  std::uint64_t done_ = 0;
};

}  // namespace troupe::stages

#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "stages/replicas/data_parallel.h"
#include "tensor/errors/error.h"

namespace troupe::stages {

/// The collectives of a step, added up by kind and one by one.
class CollectiveLog {
 public:
  CollectiveLog() { rows_.reserve(kMost); }
  CollectiveLog(const CollectiveLog&) = delete;
  CollectiveLog& operator=(const CollectiveLog&) = delete;

  /// Adds a kind. The row stays where it is.
  CollectiveReport& add(const std::string& group, const char* operation) {
    TROUPE_ASSERT(rows_.size() < kMost);
    return rows_.emplace_back(CollectiveReport{.group = group, .operation = operation});
  }
  /// Adds the times of a bucket's collective that has ended.
  void add_span(CollectiveReport& report, int bucket, double began_s, const tensor::Work& ended) {
    const double end_s = std::max(began_s, ended.finished_s());
    report.time_s += end_s - began_s;
    spans_.push_back({.of = &report, .bucket = bucket, .begin_s = began_s, .end_s = end_s});
  }
  void clear_spans() { spans_.clear(); }
  std::span<const CollectiveReport> rows() const { return rows_; }
  std::span<const CollectiveSpan> spans() const { return spans_; }

 private:
  static constexpr std::size_t kMost = 8;  ///< kinds
  std::vector<CollectiveReport> rows_;
  std::vector<CollectiveSpan> spans_;
};

/// Seconds of the steady clock, as tensor::Work::finished_s() has them.
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace troupe::stages

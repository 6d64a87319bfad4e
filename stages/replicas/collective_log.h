#pragma once

#include <string>
#include <vector>

#include "stages/replicas/data_parallel.h"

namespace troupe::stages {

/// The collectives of a step, added up by kind and one by one.
class CollectiveLog {
 public:
  CollectiveLog() { rows_.reserve(kMost); }
  CollectiveLog(const CollectiveLog&) = delete;
  CollectiveLog& operator=(const CollectiveLog&) = delete;

  /// Adds a kind. The row stays where it is.
  CollectiveReport& add(std::string group, const char* operation);
  void add_span(const CollectiveSpan& span) { spans_.push_back(span); }
  void clear_spans() { spans_.clear(); }
  std::span<const CollectiveReport> rows() const { return rows_; }
  std::span<const CollectiveSpan> spans() const { return spans_; }

 private:
  static constexpr std::size_t kMost = 8;  ///< kinds
  std::vector<CollectiveReport> rows_;
  std::vector<CollectiveSpan> spans_;
};

/// Seconds of the steady clock, as tensor::Work::finished_s() has them.
double now_s();

}  // namespace troupe::stages

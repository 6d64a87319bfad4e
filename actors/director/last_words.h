#pragma once

#include <cstdint>
#include <string>

namespace troupe::actors {

/// What a worker that has ended said last of why: the last line of its output from byte `begin` on
/// that is an error of its log, or no line of a log at all. Lines without a letter and backtraces
/// of UCX say nothing of the cause, and do not count. Without the log's time and level, cut to some
/// hundred characters; empty if there is none, or the file cannot be read.
std::string last_words(const std::string& path, std::int64_t begin);

}  // namespace troupe::actors

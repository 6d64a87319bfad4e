#pragma once

#include <cstdint>
#include <string>

namespace troupe::actors {

/// What a worker that has ended said last of why: the last line of its output from byte `begin` on
/// that is an error of its log, or no line of a log at all. Without the log's time and level, cut
/// to some hundred characters; empty if there is none, or the file cannot be read.
std::string last_words(const std::string& path, std::int64_t begin);

}  // namespace troupe::actors

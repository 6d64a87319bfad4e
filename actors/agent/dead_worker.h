#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <string>

// What is left of a worker process that has ended.

namespace troupe::actors {

/// What a worker that has ended said last of why: the last line of its output from byte `begin` on
/// that is an error of its log, or no line of a log at all. Lines without a letter and backtraces
/// of UCX say nothing of the cause, and do not count. Without the log's time and level, cut to some
/// hundred characters; empty if there is none, or the file cannot be read.
std::string last_words(const std::string& path, std::int64_t begin);

/// Removes the System V shared memory segments that a dead process has made since `since` and to
/// which no process is attached. A process that is killed between making a segment and attaching to
/// it leaves it behind, because it is marked for removal, by us and by UCX, only after that.
void remove_left_segments(pid_t dead, std::time_t since);

}  // namespace troupe::actors

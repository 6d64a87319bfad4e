#pragma once

#include <sys/types.h>

#include <ctime>

namespace troupe::actors {

/// Removes the System V shared memory segments that a dead process has made since `since` and to
/// which no process is attached. A process that is killed between making a segment and attaching to
/// it leaves it behind, because it is marked for removal, by us and by UCX, only after that.
void remove_left_segments(pid_t dead, std::time_t since);

}  // namespace troupe::actors

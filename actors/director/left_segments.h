#pragma once

#include <sys/types.h>

#include <ctime>

namespace troupe::actors {

/// Removes the System V shared memory that a process has made since `since` and nobody is attached
/// to. A process that is killed between making a segment and attaching to it leaves it behind:
/// only from then on is it marked for removal, by us and by UCX.
void remove_left_segments(pid_t dead, std::time_t since);

}  // namespace troupe::actors

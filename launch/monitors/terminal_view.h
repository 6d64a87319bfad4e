#pragma once

#include <optional>

#include "launch/host/signal_fd.h"
#include "launch/monitors/attachment.h"

namespace troupe::launch {

/// Shows a run on the terminal until the user leaves, which returns none, or the run ends, which
/// returns how. Every way out restores the terminal. Of `signals`, SIGWINCH means a new size,
/// SIGTSTP stops the process and restores the terminal meanwhile, SIGCONT continues it, and any
/// other signal leaves.
std::optional<Ending> show_terminal(Attachment& run, SignalFd& signals);

}  // namespace troupe::launch

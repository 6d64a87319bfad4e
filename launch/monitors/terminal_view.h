#pragma once

#include <optional>

#include "launch/host/signal_fd.h"
#include "launch/monitors/attachment.h"

namespace troupe::launch {

/// Shows a run on the terminal until the user leaves (none) or the run ends (how). The terminal is
/// as it was before on every way out. `signals` has SIGWINCH for a new size, SIGTSTP to stop, which
/// gives the terminal back meanwhile, SIGCONT to go on; all others leave.
std::optional<Ending> show_terminal(Attachment& run, SignalFd& signals);

}  // namespace troupe::launch

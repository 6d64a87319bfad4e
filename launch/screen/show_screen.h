#pragma once

#include <optional>

#include "launch/host/signals.h"
#include "launch/monitors/attachment.h"
#include "launch/screen/frame.h"
#include "launch/watch/run_watch.h"

namespace troupe::launch {

/// A run that is shown.
struct ShownRun {
  Attachment* news;     ///< all kinds of events but actions; null: the run has ended
  Attachment* actions;  ///< actions alone; null: the last step is not shown
  RunWatch& watch;      ///< has begun with the status of `news`
};

/// Shows a run on the terminal until the user leaves, which returns none, or the run ends, which
/// returns how; one that has ended is shown until the user leaves. Every way out restores the
/// terminal. Of `signals`, SIGWINCH means a new size, SIGTSTP stops the process and restores the
/// terminal meanwhile, SIGCONT continues it, and any other signal leaves. A frame is drawn when
/// something has changed, and sent in one piece when the terminal has taken the one before it.
std::optional<Ending> show_screen(const ShownRun& run, SignalFd& signals, const TerminalKind& kind);

}  // namespace troupe::launch

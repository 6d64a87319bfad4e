#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

#include "launch/host/signals.h"
#include "launch/hosts/invitation.h"

namespace troupe::launch {

/// Offers this host to a run as its agent, until the run has ended or goes on without it. A
/// launcher that does not answer yet is tried for `patience`, while `is_wanted` says so if given.
/// It may have so many ranks; 0: as the others. Returns the exit code.
int join_run(const Invitation& invitation, int slots, std::chrono::duration<double> patience,
             SignalWatch& signals, std::function<bool()> is_wanted = {});

/// Waits for an invitation in the file, for `patience` at most, and does what join_run() does.
int join_when_invited(const std::filesystem::path& file, int slots,
                      std::chrono::duration<double> patience, SignalWatch& signals);

}  // namespace troupe::launch

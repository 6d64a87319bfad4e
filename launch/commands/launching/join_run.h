#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

#include "launch/host/signals.h"
#include "launch/hosts/hosts_plan.h"
#include "launch/hosts/invitation.h"
#include "launch/hosts/job.h"
#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// Offers this host to a run as its agent, until the run has ended or goes on without it. A
/// launcher that does not answer yet is tried for `patience`, while `is_wanted` says so if given.
/// It may have so many ranks; 0: as the others. Returns the exit code.
int join_run(const Invitation& invitation, int slots, std::chrono::duration<double> patience,
             SignalWatch& signals, std::function<bool()> is_wanted = {});

/// What a process of a job does that shares its command with the one that launches a run in this
/// directory: the first of a host offers it, for cluster.wait seconds, by the secret that
/// `options` names or else when it finds an invitation; the others have nothing to do. Returns the
/// exit code.
int join_of_job(const HostOptions& options, const Job& job, const Manifest& manifest,
                const std::filesystem::path& run, SignalWatch& signals);

}  // namespace troupe::launch

#pragma once

#include <filesystem>
#include <string>

// The folder of a run on a host that does not see the run's directory. It is laid out like that
// one: `checkpoints` has parts until they are gathered, `fetched` a checkpoint that ranks read,
// `logs` stay.

namespace troupe::actors {

/// The path, in a cache, of `host`'s folder for the run that has this directory on the host of its
/// launcher, which is known by its address. Hosts may share a cache, as those with one home do, and
/// none may empty another's folder. Removes those of runs whose logs are a month old.
std::filesystem::path run_folder(const std::filesystem::path& cache, const std::string& host,
                                 const std::string& launcher, const std::string& run_dir);
/// Removes what is of no use to anybody when the run is over.
void empty_run_folder(const std::filesystem::path& folder);

}  // namespace troupe::actors

#pragma once

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace troupe::actors {

/// A host that has written parts of a checkpoint into a directory of its own.
struct PartHolder {
  std::string host;
  caf::actor parts;  ///< its PartsActor; null: the host is gone, and its parts with it
};

/// Fetches the holders' parts of the checkpoint that is made in `unfinished`, and merges them with
/// what lies there. No rank may write there meanwhile. Blocks, with a few blocks of each of some
/// hosts in memory; `why_stop` of a host is asked now and then. May be repeated after it has
/// failed. Throws Error that names the host, DiskFull if there is no room here, Error{retry} if it
/// is to stop.
void gather_parts(caf::actor_system& system, const std::filesystem::path& unfinished,
                  const std::vector<PartHolder>& holders,
                  const std::function<std::string(const std::string& host)>& why_stop);

}  // namespace troupe::actors

#pragma once

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <chrono>
#include <functional>
#include <string>

#include "actors/files/file_source.h"
#include "actors/messages/control_plane.h"

namespace troupe::actors {

/// When a FileFetch ends early.
struct FetchLimits {
  /// Asked every 0.2 s at least: why to stop; empty: go on.
  std::function<std::string()> why_stop;
  std::chrono::seconds silent{60};  ///< a source that sends nothing for so long is gone
};

/// Files of the host of an actor that answers ListingWanted and BlockWanted, over the control
/// plane. A few blocks are asked for ahead, so that memory is bounded, and orders on the same
/// connection wait for some milliseconds at most. Used by one thread, which may block.
class FileFetch : public FileSource {
 public:
  /// `host` is the source's name in messages.
  FileFetch(caf::actor_system& system, caf::actor source, std::string host, FetchLimits limits);
  std::vector<ListedFile> list(const std::string& path, bool sums) override;
  void fetch(const std::string& path, const ListedFile& file, const Use& use) override;

 private:
  template <typename Answer>
  Answer next();
  std::string of_host(const std::string& what) const;

  caf::scoped_actor self_;
  const caf::actor source_;
  const std::string host_;
  const FetchLimits limits_;
};

}  // namespace troupe::actors

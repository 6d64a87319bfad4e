#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::transport {

/// Where the slots of an edge lie, and with them how its messages get there. State travels through
/// the host's memory whatever the device is: its placement is always `host`.
enum class EdgePlacement : std::uint8_t {
  host,    ///< host memory, which ops and messages use alike: the edges of a CPU
  local,   ///< the memory of the one device of both its ends, which are one rank
  staged,  ///< pinned host memory; copies to and from it run beside what the devices compute
  peer,    ///< the memory of the receiver's device, which the sender's device writes
};

/// "host", "local", "staged" or "peer".
inline const char* name_of(EdgePlacement placement) {
  constexpr const char* kNames[] = {"host", "local", "staged", "peer"};
  return kNames[static_cast<std::size_t>(placement)];
}

/// What a run asks of the edges between ranks whose device has memory of its own.
enum class EdgeChoice : std::uint8_t {
  automatic,  ///< peer where that can be, else staged
  peer,       ///< the same, and where it cannot be is a warning
  staged,
};

}  // namespace troupe::transport

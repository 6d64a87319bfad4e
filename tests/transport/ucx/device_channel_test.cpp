#include "tests/support/device_channel.h"

#include <deque>
#include <tuple>

#include "tests/support/reachable_device.h"
#include "tests/transport/ucx/chosen_transports.h"
#include "tests/transport/ucx/ucx_nodes.h"
#include "transport/edges/memory_channel.h"

// The contract of channels for edges on devices, by placement.

namespace troupe::test {

using transport::EdgeChoice;

/// Ranks each of which has a device.
class DeviceRanks {
 public:
  static constexpr bool kOnDevice = true;
  explicit DeviceRanks(int ranks) : devices_(static_cast<std::size_t>(ranks)) {}

 protected:
  void add(std::function<transport::Channel&()> channel, EdgeChoice choice) {
    channels_.emplace_back(std::move(channel), devices_[channels_.size()], choice);
  }
  transport::Channel& at(int rank) { return channels_.at(static_cast<std::size_t>(rank)); }

 private:
  std::deque<ReachableDevice> devices_;
  std::deque<DeviceChannel> channels_;
};

class MemoryWorld : public DeviceRanks {
 public:
  MemoryWorld(int ranks, EdgeChoice choice, bool shares_memory)
      : DeviceRanks(ranks), network_(ranks, shares_memory) {
    for (int rank = 0; rank < ranks; ++rank)
      add([this, rank]() -> transport::Channel& { return network_.channel(rank); }, choice);
  }
  transport::Channel& channel(int rank) { return at(rank); }
  void disconnect(int rank) { network_.disconnect(rank); }
  void restart(int rank) { network_.reconnect(rank); }

 private:
  transport::MemoryNetwork network_;
};

class UcxWorld : public DeviceRanks {
 public:
  UcxWorld(int ranks, EdgeChoice choice, const char* transports)
      : DeviceRanks(ranks), transports_(transports), nodes_(ranks) {
    for (int rank = 0; rank < ranks; ++rank)
      add([this, rank]() -> transport::Channel& { return nodes_.channel(rank); }, choice);
  }
  transport::Channel& channel(int rank) { return at(rank); }
  void disconnect(int rank) {
    nodes_.kill(rank);
    nodes_.node(0).disconnect(rank);
  }
  void restart(int rank) { nodes_.restart(rank, ++incarnation_); }

 private:
  ChosenTransports transports_;
  UcxNodes nodes_;
  std::uint64_t incarnation_ = 1;
};

struct PeerWorld : MemoryWorld {
  explicit PeerWorld(int ranks) : MemoryWorld(ranks, EdgeChoice::peer, true) {}
};
struct StagedWorld : MemoryWorld {
  explicit StagedWorld(int ranks) : MemoryWorld(ranks, EdgeChoice::staged, true) {}
};
/// As on two hosts: payloads travel.
struct RemoteWorld : MemoryWorld {
  explicit RemoteWorld(int ranks) : MemoryWorld(ranks, EdgeChoice::automatic, false) {}
};
struct UcxPeerWorld : UcxWorld {
  explicit UcxPeerWorld(int ranks) : UcxWorld(ranks, EdgeChoice::peer, "shm,self") {}
};
struct UcxStagedWorld : UcxWorld {
  explicit UcxStagedWorld(int ranks) : UcxWorld(ranks, EdgeChoice::staged, "shm,self") {}
};
struct UcxRemoteWorld : UcxWorld {
  explicit UcxRemoteWorld(int ranks) : UcxWorld(ranks, EdgeChoice::automatic, "tcp,self") {}
};

using Worlds =
    std::tuple<PeerWorld, StagedWorld, RemoteWorld, UcxPeerWorld, UcxStagedWorld, UcxRemoteWorld>;

}  // namespace troupe::test

#include "tests/contract/channel_contract.h"
#include "tests/contract/channel_contract_of_configurations.h"
#include "tests/contract/channel_events_contract.h"
#include "tests/contract/channel_pieces_contract.h"
#include "tests/contract/channel_pieces_rules_contract.h"

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "tensor/device/device.h"
#include "tensor/device/process_group.h"
#include "transport/collectives/call_witness.h"
#include "transport/collectives/staged_group.h"

namespace troupe::transport {

/// A group for tensors in the memory of a device: staged through host memory at first, which works
/// at once, and by the device's own means later, which take their time to begin. Both add in the
/// same order, unless the spec says otherwise.
class ChangingGroup final : public tensor::ProcessGroup {
 public:
  /// Takes what a StagedGroup takes.
  ChangingGroup(std::unique_ptr<tensor::ProcessGroup> hosts, tensor::Device& device,
                const std::string& name);

  /// Lets the device begin a group of its own, over the hosts. All members call it, with no
  /// collective under way. Returns why there is none; empty if there is one, or the device has none
  /// of its own.
  std::string begin(const tensor::GroupSpec& spec);
  /// Whether the device's own group can take over.
  bool is_ready() const { return own_ && own_->is_ready(); }
  /// From now on collectives are the device's own. All members call it between the same two
  /// collectives, once all are ready.
  void take_over() { is_own_ = true; }

  /// To be called from time to time while the device's own group is used, from any thread. Ends it
  /// if the group of hosts has ended. `stands_still`: this member has not come on for a while, so
  /// its calls are told to the others, which compare them.
  void watch(bool stands_still);

  int size() const override { return staged_.size(); }
  int member() const override { return staged_.member(); }
  std::unique_ptr<tensor::Work> start(tensor::Stream& stream,
                                      const tensor::CollectiveCall& call) override;
  void abort(const std::string& reason) override;
  std::string fault() const override;
  std::int64_t bytes() const override { return staged_.bytes(); }

 private:
  tensor::Device& device_;
  StagedGroup staged_;
  CallWitness* const witness_;  ///< the group of hosts; null if it is none
  std::atomic<bool> is_own_{false};
  mutable std::mutex mutex_;  // of what begins the device's own group, and what ends both
  std::unique_ptr<tensor::DeviceGroup> own_;
};

/// A group for tensors of this device: the group of hosts itself if they read the device's memory,
/// else a ChangingGroup.
std::unique_ptr<tensor::ProcessGroup> group_for(tensor::Device& device,
                                                std::unique_ptr<tensor::ProcessGroup> hosts,
                                                const std::string& name);
/// A group for them whose other members have devices of other kinds: it is staged for good.
std::unique_ptr<tensor::ProcessGroup> group_among_kinds(tensor::Device& device,
                                                        std::unique_ptr<tensor::ProcessGroup> hosts,
                                                        const std::string& name);

}  // namespace troupe::transport

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tensor/cuda/nccl/nccl_collectives.h"
#include "tensor/cuda/nccl/nccl_exchange.h"
#include "tensor/device/process_group.h"

namespace troupe::tensor::cuda {

/// A group whose collectives are kernels of its device. No call but wait() blocks the host. Adds as
/// UcxGroup does, or as NCCL likes (GroupSpec::sums). A fault of one group of a device ends all,
/// because their communicators end together.
class NcclGroup final : public DeviceGroup {
 public:
  /// `communicator` is null for a group of one member. `shared` outlives the group, and this the
  /// works that it starts.
  NcclGroup(NcclCollectives& shared, const GroupSpec& spec,
            std::shared_ptr<NcclCommunicator> communicator);
  ~NcclGroup() override;

  int size() const override { return exchange_.size(); }
  int member() const override { return exchange_.member(); }
  bool is_ready() const override;
  std::unique_ptr<Work> start(Stream& stream, const CollectiveCall& call) override;
  void abort(const std::string& reason) override;
  std::string fault() const override;

 private:
  class Collective;
  struct Destroy {
    void operator()(Collective* collective) const;
  };

  Collective& take();
  void take_back(Collective& collective);
  bool has_fault() const { return !fault().empty(); }
  void wait_for(Collective& collective);
  void end(const std::string& fault);
  [[noreturn]] void leave(Collective& collective);
  std::string name_of(const Collective& collective) const;

  NcclCollectives& shared_;
  const GroupSpec spec_;
  const std::shared_ptr<NcclCommunicator> communicator_;
  NcclExchange exchange_;
  std::uint64_t next_sequence_ = 0;
  std::vector<std::int64_t> counts_;  ///< of an even collective, while it starts
  std::vector<std::unique_ptr<Collective, Destroy>> all_;
  std::vector<Collective*> idle_;  ///< without a handle
  mutable std::mutex mutex_;       // guards aborted_
  std::string aborted_;            ///< why this group was aborted; empty if it was not
};

}  // namespace troupe::tensor::cuda

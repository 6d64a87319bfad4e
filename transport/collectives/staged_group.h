#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tensor/device/device.h"
#include "tensor/device/process_group.h"

namespace troupe::transport {

/// A group of hosts for tensors in the memory of a device that the hosts do not read. A collective
/// copies its tensors into pinned memory on the caller's stream; once they are there it begins
/// among the hosts, and the results are copied back on the stream that waits for it. The caller
/// blocks in no call that starts a collective. Pinned memory for all tensors of the largest
/// collectives under way stays until the group ends.
class StagedGroup final : public tensor::ProcessGroup {
 public:
  /// The group of hosts is used by threads of the device, one at a time. The device outlives this
  /// group, and this group the works that it starts.
  StagedGroup(std::unique_ptr<tensor::ProcessGroup> hosts, tensor::Device& device,
              const std::string& name);
  ~StagedGroup() override;

  /// The group of hosts, for who calls it while no collective of this one is under way.
  tensor::ProcessGroup& hosts() { return *hosts_; }

  int size() const override { return hosts_->size(); }
  int member() const override { return hosts_->member(); }
  /// Queues the copies into pinned memory. The collective begins once they have run.
  std::unique_ptr<tensor::Work> start(tensor::Stream& stream,
                                      const tensor::CollectiveCall& call) override;
  void abort(const std::string& reason) override { hosts_->abort(reason); }
  std::string fault() const override { return hosts_->fault(); }
  std::int64_t bytes() const override { return hosts_->bytes() + pinned_bytes_.load(); }

 private:
  class HostStream;
  class Staged;
  struct Destroy {
    void operator()(Staged* staged) const;
  };

  Staged& take();
  void copy_in(tensor::Stream& stream, const tensor::CollectiveCall& call, Staged& staged);
  void on_copied(Staged& staged);
  void wait_begun(Staged& staged);
  void copy_back(const Staged& staged, tensor::Stream& stream);
  void take_back(Staged& staged);

  const std::unique_ptr<tensor::ProcessGroup> hosts_;
  tensor::Device& device_;
  const std::string name_;
  const std::unique_ptr<HostStream> host_stream_;
  const std::unique_ptr<tensor::Stream> stream_;  ///< of results that the host waits for
  std::mutex mutex_;                              // guards due_ and what begins collectives
  std::condition_variable begun_;
  std::deque<Staged*> due_;  ///< collectives that have not begun, in the order of their calls
  std::vector<std::unique_ptr<Staged, Destroy>> all_;
  std::vector<Staged*> idle_;                  ///< without a handle
  std::atomic<std::int64_t> pinned_bytes_{0};  ///< of all_
};

}  // namespace troupe::transport

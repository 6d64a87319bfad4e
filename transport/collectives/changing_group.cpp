#include "transport/collectives/changing_group.h"

#include <utility>

namespace troupe::transport {

ChangingGroup::ChangingGroup(std::unique_ptr<tensor::ProcessGroup> hosts, tensor::Device& device,
                             const std::string& name)
    : device_(device),
      staged_(std::move(hosts), device, name),
      witness_(dynamic_cast<CallWitness*>(&staged_.hosts())) {}

std::string ChangingGroup::begin(const tensor::GroupSpec& spec) {
  tensor::MadeGroup made = device_.make_group(spec, staged_.hosts());
  const std::lock_guard lock(mutex_);
  own_ = std::move(made.group);
  if (const std::string fault = staged_.fault(); own_ && !fault.empty()) own_->abort(fault);
  return made.fault;
}

std::unique_ptr<tensor::Work> ChangingGroup::start(tensor::Stream& stream,
                                                   const tensor::CollectiveCall& call) {
  if (!is_own_) return staged_.start(stream, call);
  if (witness_) witness_->record(call);
  return own_->start(stream, call);
}

void ChangingGroup::watch(bool stands_still) {
  const std::lock_guard lock(mutex_);
  if (!is_own_ || !own_->fault().empty()) return;
  if (stands_still && witness_) witness_->tell_calls();
  if (const std::string fault = staged_.fault(); !fault.empty()) own_->abort(fault);
}

void ChangingGroup::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  staged_.abort(reason);
  if (own_) own_->abort(reason);
}

std::string ChangingGroup::fault() const {
  const std::lock_guard lock(mutex_);
  const std::string fault = staged_.fault();
  return fault.empty() && is_own_ ? own_->fault() : fault;
}

std::unique_ptr<tensor::ProcessGroup> group_for(tensor::Device& device,
                                                std::unique_ptr<tensor::ProcessGroup> hosts,
                                                const std::string& name) {
  if (device.host_reads_memory()) return hosts;
  return std::make_unique<ChangingGroup>(std::move(hosts), device, name);
}

std::unique_ptr<tensor::ProcessGroup> group_among_kinds(tensor::Device& device,
                                                        std::unique_ptr<tensor::ProcessGroup> hosts,
                                                        const std::string& name) {
  if (device.host_reads_memory()) return hosts;
  return std::make_unique<StagedGroup>(std::move(hosts), device, name);
}

}  // namespace troupe::transport

#include "transport/collectives/changing_group.h"

#include <utility>

namespace troupe::transport {

ChangingGroup::ChangingGroup(std::unique_ptr<tensor::ProcessGroup> hosts, tensor::Device& device,
                             const std::string& name)
    : device_(device), staged_(std::move(hosts), device, name) {}

std::string ChangingGroup::begin(const tensor::GroupSpec& spec) {
  tensor::MadeGroup made = device_.make_group(spec, staged_.hosts());
  const std::lock_guard lock(mutex_);
  own_ = std::move(made.group);
  if (const std::string fault = staged_.fault(); own_ && !fault.empty()) own_->abort(fault);
  return made.fault;
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

}  // namespace troupe::transport

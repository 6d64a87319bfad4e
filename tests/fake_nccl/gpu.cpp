#include "tests/fake_nccl/gpu.h"

#include <algorithm>
#include <map>

namespace troupe::fake_nccl {
namespace {

bool are_same(const Gpu::Launch& a, const Gpu::Launch& b) {
  return a.communicator == b.communicator && a.number == b.number;
}

std::mutex gpus_mutex;  // guards gpus
std::map<const void*, std::weak_ptr<Gpu>> gpus;

}  // namespace

std::shared_ptr<Gpu> Gpu::of(const void* key) {
  const std::lock_guard lock(gpus_mutex);
  std::shared_ptr<Gpu> gpu = gpus[key].lock();
  if (!gpu) gpus[key] = gpu = std::make_shared<Gpu>();
  return gpu;
}

std::vector<Gpu::Launch> Gpu::launch(const Launch& launch) {
  const std::lock_guard lock(mutex_);
  std::map<std::uint64_t, std::uint64_t> last;
  for (const Launch& before : launches_) last[before.communicator] = before.number;
  last.erase(launch.communicator);
  std::vector<Launch> ahead;
  for (const auto& [communicator, number] : last) ahead.push_back({communicator, number});
  launches_.push_back(launch);
  return ahead;
}

bool Gpu::has_slot(const Launch& launch) {
  const std::lock_guard lock(mutex_);
  return are_same(launches_.front(), launch);
}

bool Gpu::is_waiting(std::uint64_t communicator, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  return std::any_of(launches_.begin() + 1, launches_.end(), [&](const Launch& launch) {
    return launch.communicator == communicator && launch.number <= number;
  });
}

void Gpu::end(const Launch& launch) {
  const std::lock_guard lock(mutex_);
  std::erase_if(launches_, [&](const Launch& other) { return are_same(launch, other); });
  changed_.notify_all();
}

void Gpu::wait_until_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return launches_.empty(); });
}

}  // namespace troupe::fake_nccl

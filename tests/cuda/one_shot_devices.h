#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tensor/device/one_shot_norm.h"
#include "tests/support/emulated_device.h"

namespace troupe::test {

using EmulatedDevices = std::vector<std::unique_ptr<EmulatedDevice>>;

/// Emulated GPUs, which run threads in different orders; with seed 0 all in ascending order.
inline EmulatedDevices emulated_devices(int count, std::uint64_t seed) {
  EmulatedDevices devices;
  for (int i = 0; i < count; ++i)
    devices.push_back(
        std::make_unique<EmulatedDevice>(seed == 0 ? 0 : seed + static_cast<std::uint64_t>(i)));
  return devices;
}

/// What their members sum by, in memory that each maps of the others. The devices outlive it.
inline std::vector<std::unique_ptr<tensor::OneShotNorm>> one_shot_of(EmulatedDevices& devices) {
  constexpr std::size_t kBytes = tensor::OneShotDevice::kShared;
  std::vector<tensor::PeerMemory> memory(devices.size());
  for (std::size_t i = 0; i < memory.size(); ++i) {
    memory[i].own = devices[i]->share(kBytes);
    memory[i].others.resize(memory.size());
    memory[i].member = static_cast<int>(i);
  }
  for (std::size_t i = 0; i < memory.size(); ++i)
    for (std::size_t j = 0; j < memory.size(); ++j)
      if (i != j) memory[i].others[j] = devices[i]->map(memory[j].own.descriptor(), kBytes);
  std::vector<std::unique_ptr<tensor::OneShotNorm>> sums;
  for (std::size_t i = 0; i < memory.size(); ++i)
    sums.push_back(devices[i]->make_one_shot_norm(std::move(memory[i])));
  return sums;
}

}  // namespace troupe::test

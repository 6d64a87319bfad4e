#pragma once

#include <span>
#include <string>
#include <vector>

#include "tensor/libraries/device_library.h"

namespace troupe::tensor {

/// The GPUs of a machine in the order in which its workers take them by turns, as numbers in
/// `devices`. `chosen`: those that may be taken, in that order, each by its number, its UUID or the
/// beginning of that; none: all, each after one whose memory it reads and writes directly where
/// there is one, so that the shards of a stage, whose ranks follow each other, are on peers. Throws
/// Error{unavailable} for one that is not there, with those that are.
std::vector<int> gpus_in_order(std::span<const DeviceInfo> devices,
                               std::span<const std::string> chosen);

/// Whether it is the UUID of a part of a GPU (Multi-Instance GPU). A process can use only one of
/// them, and sees it only if CUDA_VISIBLE_DEVICES names it.
bool is_gpu_instance(const std::string& chosen);

/// The GPU of `order` whose turn it is. If its UUID is among those of `failed` ones, it is one of
/// the others: that with the most memory free. Throws Error{unavailable} if all have failed.
int gpu_of_turn(int worker, std::span<const int> order, std::span<const DeviceInfo> devices,
                std::span<const std::string> failed);

/// Whose turn it is. More workers than GPUs share them.
template <typename T>
const T& turn_of(int worker, std::span<const T> order) {
  return order[static_cast<std::size_t>(worker) % order.size()];
}

}  // namespace troupe::tensor

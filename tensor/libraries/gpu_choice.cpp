#include "tensor/libraries/gpu_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

std::optional<int> number_of(const std::string& text) {
  int number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string those_of(std::span<const DeviceInfo> devices) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < devices.size(); ++i)
    texts.push_back(fmt::format("{} ({}, {})", i, devices[i].name, devices[i].uuid));
  return fmt::format("{}", fmt::join(texts, "; "));
}

[[noreturn]] void refuse(const std::string& why, std::span<const DeviceInfo> devices) {
  throw Error(ErrorKind::unavailable,
              fmt::format("cluster.gpus: {}; this machine has {}", why, those_of(devices)));
}

int find(const std::string& chosen, std::span<const DeviceInfo> devices) {
  if (const auto number = number_of(chosen)) {
    if (*number >= 0 && std::cmp_less(*number, devices.size())) return *number;
    refuse(fmt::format("there is no GPU {}", *number), devices);
  }
  const auto is_it = [&](const DeviceInfo& gpu) { return gpu.uuid.starts_with(chosen); };
  const auto count = std::ranges::count_if(devices, is_it);
  if (count == 0 || chosen.empty())
    refuse(fmt::format("there is no GPU with the UUID \"{}\"", chosen), devices);
  if (count > 1)
    refuse(fmt::format("the UUIDs of {} GPUs begin with \"{}\"", count, chosen), devices);
  return static_cast<int>(std::ranges::find_if(devices, is_it) - devices.begin());
}

/// All of them, from one to a peer of it as long as there is one.
std::vector<int> along_peers(std::span<const DeviceInfo> devices) {
  std::vector<int> order, left;
  for (int i = 0; std::cmp_less(i, devices.size()); ++i) left.push_back(i);
  while (!left.empty()) {
    auto next = left.begin();
    if (!order.empty()) {
      const std::vector<int>& peers = devices[static_cast<std::size_t>(order.back())].peers;
      const auto is_peer = [&](int gpu) { return std::ranges::count(peers, gpu) > 0; };
      const auto peer = std::ranges::find_if(left, is_peer);
      if (peer != left.end()) next = peer;
    }
    order.push_back(*next);
    left.erase(next);
  }
  return order;
}

}  // namespace

std::vector<int> gpus_in_order(std::span<const DeviceInfo> devices,
                               std::span<const std::string> chosen) {
  if (chosen.empty()) return along_peers(devices);
  std::vector<int> order;
  for (const std::string& one : chosen) {
    const int gpu = find(one, devices);
    if (std::ranges::count(order, gpu) > 0)
      refuse(fmt::format("GPU {} is named twice", gpu), devices);
    order.push_back(gpu);
  }
  return order;
}

int gpu_of_turn(int worker, std::span<const int> order, std::span<const DeviceInfo> devices,
                std::span<const std::string> failed) {
  const auto info = [&](int gpu) -> const DeviceInfo& {
    return devices[static_cast<std::size_t>(gpu)];
  };
  const auto works = [&](int gpu) { return std::ranges::count(failed, info(gpu).uuid) == 0; };
  const int own = turn_of(worker, order);
  if (works(own)) return own;
  std::optional<int> other;
  for (const int gpu : order)
    if (works(gpu) && (!other || info(gpu).free_bytes > info(*other).free_bytes)) other = gpu;
  if (!other)
    throw Error(ErrorKind::unavailable,
                "all GPUs that this machine has for the run have failed "
                "and are not used again: " +
                    those_of(devices));
  return *other;
}

bool is_gpu_instance(const std::string& chosen) {
  return chosen.starts_with("MIG-");
}

}  // namespace troupe::tensor

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/analysis/costs.h"

namespace troupe::schedules {

/// What is read of a machine to tell how long a step takes on it: a device, the host that has some
/// of them, the network between hosts, and how the trainer computes. Rates are in 10^9 bytes/s or
/// 10^12 FLOP/s of dense products, times in microseconds. A value.
struct MachineModel {
  enum class Kind { gpu, cpu };
  enum class Attention { fused, unfused };

  struct Device {
    Kind kind = Kind::gpu;  ///< whose memory is counted
    double bfloat16_tflops = 0;
    double float32_tflops = 0;
    double units = 0;      ///< that compute tiles of a product: multiprocessors, or cores
    double sustained = 0;  ///< share of the peak that units reach on whole tiles
    double memory_gb_per_s = 0;
    double memory_share = 0;       ///< of that rate, which streaming kernels reach
    double memory_gib = 0;         ///< in 2^30 bytes
    double kernel_us = 0;          ///< that each kernel takes besides
    double attention_forward = 0;  ///< shares of the peak
    double attention_backward = 0;
  } device;

  struct Host {
    double devices = 1;   ///< that ranks take
    double gb_per_s = 0;  ///< bus bandwidth that a collective of all of them reaches
    double hop_us = 0;    ///< a step of a ring, or a message
    double base_us = 0;   ///< of a collective
    /// What a device keeps of its rates while all of the host's compute: cores share memory, power
    /// and clocks.
    double busy_share = 1;
  } host;

  struct Network {
    double gb_per_s = 0;  ///< line rate of a device, each way
    double share = 0;     ///< of it, which is reached
    double hop_us = 0;
  } network;

  struct Software {
    Attention attention = Attention::fused;
    Sends sends = Sends::overlapped;
    double send_us = 0;  ///< that the sender takes for a message
    /// Whether collectives of shards run under products.
    bool overlap_shards = true;
    /// Share of a collective that is not hidden by work beside it, whose units and memory it takes.
    double interference = 0.15;
    double optimizer_bytes = 42;  ///< that a step moves for each parameter, outside of its passes
  } software;

  /// Rates of products as they were measured in float32, by the number of elements of each side. If
  /// there are some, they are used in the place of tiles. `rate` is in 10^9 FLOP/s.
  struct ProductRate {
    double m = 0, n = 0, k = 0;
    double rate = 0;
  };
  std::vector<ProductRate> products = {};
};

/// A description that needs no file.
struct MachinePreset {
  std::string_view name;
  MachineModel model;
};
std::span<const MachinePreset> machine_presets();
/// Null for an unknown name.
const MachineModel* find_machine_preset(std::string_view name);

}  // namespace troupe::schedules

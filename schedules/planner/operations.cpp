#include "schedules/planner/operations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace troupe::schedules {
namespace {

constexpr double kMicro = 1e-6, kGiga = 1e9, kTera = 1e12;

/// A part of a product that one unit computes, and the share of its rate that it reaches so. Small
/// tiles read their operands more often (NVIDIA, Matrix Multiplication Background); the shares are
/// assumed.
struct Tile {
  double rows, columns, share;
};
constexpr std::array kTiles{Tile{256, 128, 1},   Tile{128, 256, 1},   Tile{128, 128, 0.93},
                            Tile{256, 64, 0.80}, Tile{64, 256, 0.80}, Tile{128, 64, 0.75},
                            Tile{64, 64, 0.60}};
/// A tile's prologue and end take as long as so many more elements of the inner side; assumed.
constexpr double kPrologue = 64;
/// NCCL's protocol for small messages has a small part of the latency and a quarter of the rate.
constexpr double kQuickLatency = 0.18, kQuickBytes = 4;

/// Between a device that computes alone and a host whose devices all do.
double share_of_rates(const MachineModel::Host& host, int devices) {
  if (host.devices <= 1) return 1;
  const double busy = std::min<double>(devices, host.devices);
  return 1 - (1 - host.busy_share) * (busy - 1) / (host.devices - 1);
}

}  // namespace

Operations::Operations(const MachineModel& machine, int element_bytes, int devices)
    : machine_(machine),
      element_bytes_(element_bytes),
      peak_((element_bytes == 2 ? machine.device.bfloat16_tflops : machine.device.float32_tflops) *
            kTera),
      share_(share_of_rates(machine.host, devices)) {}

double Operations::moving(double bytes) const {
  return bytes / (machine_.device.memory_gb_per_s * kGiga * machine_.device.memory_share * share_);
}

double Operations::measured(double m, double n, double k) const {
  // The nearest shapes decide, in the logarithms of the sides, the nearer the more. A shape outside
  // of all has the rate of those at the border.
  double weights = 0, rates = 0;
  for (const MachineModel::ProductRate& at : machine_.products) {
    const double dm = std::log2(m / at.m), dn = std::log2(n / at.n), dk = std::log2(k / at.k);
    const double distance = dm * dm + dn * dn + dk * dk;
    const double weight = 1 / (1e-6 + distance * distance);
    weights += weight;
    rates += weight * std::log(at.rate);
  }
  const double of_type = peak_ / (machine_.device.float32_tflops * kTera);
  return std::exp(rates / weights) * kGiga * of_type * share_;
}

double Operations::computing(double m, double n, double k, double batch) const {
  if (!machine_.products.empty()) return 2 * batch * m * n * k / measured(m, n, k);
  const MachineModel::Device& device = machine_.device;
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles = batch * std::ceil(m / tile.rows) * std::ceil(n / tile.columns);
    const double waves = std::ceil(tiles / device.units);
    best = std::min(best, waves * tile.rows * tile.columns / tile.share);
  }
  return best * 2 * (k + kPrologue) / (peak_ * share_ * device.sustained / device.units);
}

double Operations::product(double m, double n, double k, double batch) const {
  const double bytes = element_bytes_ * batch * (m * k + k * n + m * n);
  return std::max(computing(m, n, k, batch), moving(bytes)) + machine_.device.kernel_us * kMicro;
}

double Operations::weight_gradient(double rows, double columns, double tokens) const {
  constexpr double kReadAndWritten = 2 * sizeof(float);
  const double bytes =
      element_bytes_ * tokens * (rows + columns) + kReadAndWritten * rows * columns;
  return std::max(computing(rows, columns, tokens, 1), moving(bytes)) +
         machine_.device.kernel_us * kMicro;
}

double Operations::stream(double bytes, int kernels) const {
  return moving(bytes) + kernels * machine_.device.kernel_us * kMicro;
}

double Operations::attention(double flop, double share) const {
  return flop / (peak_ * share_ * share) + machine_.device.kernel_us * kMicro;
}

double Operations::collective(Rounds kind, int members, int apart, double bytes) const {
  if (members <= 1) return 0;
  const double n = members, on_host = members_on_host(machine_, members, apart);
  const double hosts = std::ceil(n / on_host), rounds = static_cast<int>(kind);
  const double network = on_host * machine_.network.gb_per_s * machine_.network.share;
  const double bus = hosts > 1 ? std::min(machine_.host.gb_per_s, network) : machine_.host.gb_per_s;
  const double across = hosts > 1 ? std::min(hosts - 1, 2 * std::log2(hosts)) : 0;
  const double steps =
      rounds * ((on_host - 1) * machine_.host.hop_us + across * machine_.network.hop_us) * kMicro;
  const double wire = rounds * bytes * (n - 1) / n / (bus * kGiga);
  return machine_.host.base_us * kMicro +
         std::min(steps + wire, kQuickLatency * steps + kQuickBytes * wire);
}

double Operations::hop(double bytes, bool over_network) const {
  const auto& [host, network] = std::pair(machine_.host, machine_.network);
  const double rate = over_network ? network.gb_per_s * network.share : host.gb_per_s;
  const double latency = over_network ? network.hop_us : host.hop_us;
  return bytes / (rate * kGiga) + (latency + machine_.software.send_us) * kMicro;
}

int members_on_host(const MachineModel& machine, int members, int apart) {
  return std::max(1, std::min(members, static_cast<int>(machine.host.devices) / apart));
}

}  // namespace troupe::schedules

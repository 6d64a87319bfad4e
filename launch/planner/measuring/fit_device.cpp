#include "launch/planner/measuring/fit_device.h"

#include <cmath>

#include "schedules/planner/chunk_work.h"
#include "schedules/planner/replica_costs.h"

namespace troupe::launch {
namespace {

/// Rates from 10 MB/s to 100 TB/s, and shares of a peak, are looked for in so wide a range.
constexpr double kLeastRate = 0.01, kMostRate = 1e5;
constexpr double kLeastShare = 1e-4, kMostShare = 4;
constexpr int kHalvings = 60;
/// The rate of streams and attention are fitted in turn, each with the other's last value.
constexpr int kTurns = 8;

/// The number in this range for which `seconds` of it, which falls, is nearest to `wanted`.
template <typename Seconds>
void number_for(double wanted, double low, double high, double& number, const Seconds& seconds) {
  for (int i = 0; i < kHalvings; ++i) {
    number = std::sqrt(low * high);
    (seconds() > wanted ? low : high) = number;
  }
}

schedules::ChunkWork all_of(const schedules::Work& work) {
  return {.layers = static_cast<int>(work.layers), .embedding = true, .head = true};
}

}  // namespace

StageTimes predicted_times(const schedules::Work& work, const schedules::MachineModel& machine) {
  const schedules::Operations operations(machine, work.element_bytes);
  const schedules::ChunkCosts costs = schedules::chunk_costs(
      work, operations, schedules::layout_costs(work, operations), all_of(work));
  return {.forward = costs.forward(),
          .backward = costs.backward(),
          .optimizer = schedules::optimizer_time(work, operations,
                                                 schedules::parameters_of(work, all_of(work)))};
}

void fit_device(schedules::MachineModel& machine, const MeasuredStage& short_sequences,
                const MeasuredStage& long_sequences) {
  auto& device = machine.device;
  const auto& [short_work, short_times] = short_sequences;
  const auto& [long_work, long_times] = long_sequences;
  for (int i = 0; i < kTurns; ++i) {
    number_for(short_times.forward + short_times.backward, kLeastRate, kMostRate,
               device.memory_gb_per_s, [&] {
                 const StageTimes times = predicted_times(short_work, machine);
                 return times.forward + times.backward;
               });
    number_for(long_times.forward, kLeastShare, kMostShare, device.attention_forward,
               [&] { return predicted_times(long_work, machine).forward; });
    number_for(long_times.backward, kLeastShare, kMostShare, device.attention_backward,
               [&] { return predicted_times(long_work, machine).backward; });
  }
  const double bytes_per_s = device.memory_gb_per_s * 1e9 * device.memory_share;
  machine.software.optimizer_bytes = short_times.optimizer * bytes_per_s /
                                     schedules::parameters_of(short_work, all_of(short_work));
}

}  // namespace troupe::launch

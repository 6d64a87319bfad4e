#pragma once

#include <span>
#include <string_view>

#include "schedules/planner/machine_model.h"

namespace troupe::launch {

/// A number in a description of a machine.
struct MachineKey {
  std::string_view table;
  std::string_view name;
  double& (*of)(schedules::MachineModel& machine);
  bool may_be_zero = false;
  std::string_view meaning;
};
std::span<const MachineKey> machine_keys();

/// What a choice of a description may be, and how it is kept.
struct MachineChoice {
  std::string_view table;
  std::string_view name;
  std::string_view values[2];
  /// Sets the second value, or the first.
  void (*set)(schedules::MachineModel& machine, bool second);
  bool (*is_second)(const schedules::MachineModel& machine);
  std::string_view meaning;
};
std::span<const MachineChoice> machine_choices();

}  // namespace troupe::launch

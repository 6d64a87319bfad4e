#pragma once

#include <string>

#include "schedules/planner/machine_model.h"

namespace troupe::launch {

/// A machine, and what is to be said of where its numbers come from.
struct MachineDescription {
  std::string name;  ///< of the preset, or of the file
  schedules::MachineModel model;
  std::string host{};       ///< whose it is, if it was measured
  std::string processor{};  ///< its processor or GPU
  std::string date{};       ///< when
  std::string version{};    ///< of this program, that measured it
};

/// The machine that a preset describes, or else a TOML file, which says what differs from the
/// preset that is its base, or everything. Throws Error{usage} for a name that is neither, with the
/// nearest preset, and Error{manifest} "file:line:column: ..." for what the file must not hold.
MachineDescription describe_machine(const std::string& preset_or_file);
/// The machine that the text of such a file describes; `name` stands for it in messages.
MachineDescription parse_machine(std::string_view text, const std::string& name);

/// The preset for a GPU by the name that its driver gives; empty for others.
std::string_view machine_of_gpu(std::string_view name);

/// A file that describes the machine, with every number.
std::string to_toml(const MachineDescription& machine);

}  // namespace troupe::launch

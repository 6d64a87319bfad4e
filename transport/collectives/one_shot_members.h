#pragma once

#include <memory>
#include <string>

#include "tensor/device/device.h"
#include "tensor/device/one_shot_norm.h"
#include "tensor/device/process_group.h"

namespace troupe::transport {

/// What make_one_shot() gives.
struct MadeOneShot {
  std::unique_ptr<tensor::OneShotNorm> norm;  ///< null: the members sum by a group
  std::string fault;  ///< why, though devices of this kind can do better; else empty
};

/// Lets the devices of a group's members reach memory of each other's, and sum in it. All members
/// of `hosts`, a group of hosts with no collective under way, call it with devices of one kind. No
/// member gets it if one of them cannot: it does not reach another's memory, is on another machine,
/// or has a GPU together with another one. Blocks until all have called it, and throws as waits for
/// collectives do. The device outlives what it returns.
MadeOneShot make_one_shot(tensor::Device& device, tensor::ProcessGroup& hosts);

}  // namespace troupe::transport

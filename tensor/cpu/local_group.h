#pragma once

#include <memory>
#include <vector>

#include "tensor/device/process_group.h"

namespace troupe::tensor {

/// The members of a group whose members are threads of this process, with tensors in host memory
/// that all of them read and write directly. Adds as UcxGroup does: every element in ascending
/// member order. A collective is done when its call returns, which is once all members have called
/// it: members of several groups call the collectives of all of them in one order.
std::vector<std::unique_ptr<ProcessGroup>> make_local_group(int size);

}  // namespace troupe::tensor

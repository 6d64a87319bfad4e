#pragma once

#include "tensor/libraries/device_library.h"

namespace troupe::tensor {

/// Sets DeviceInfo::context_bytes, what a process takes of a GPU before it allocates anything: its
/// context, and the code of kernels and libraries. Makes a device on one GPU of each kind and sees
/// how much less memory is free; a GPU that has little left, or whose driver does not tell, is not
/// measured. For a process of its own, because contexts stay until it ends.
void measure_contexts(DeviceReport& report);

}  // namespace troupe::tensor

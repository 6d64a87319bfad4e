#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tensor/device/device.h"

// The device whose ops a test program tests. One of the sources beside this file that define these
// functions is linked with it: cpu_test_device.cpp or emulated_test_device.cpp.

namespace troupe::tensor {

using MakeDevice = std::function<std::unique_ptr<Device>()>;

/// The device for a test of one way to run. `variant` tells ways apart that must give equal bits
/// where the ops say so: it is the number of threads of a CPU, and the seed of an emulated grid.
std::unique_ptr<Device> make_test_device(int variant);

/// Calls run(name, make) for every way to run that a test should cover: numbers of threads and sets
/// of kernels of a CPU, seeds of an emulated grid.
void for_each_way(const std::function<void(const std::string& name, const MakeDevice&)>& run);

/// Whether all ways give equal bits in every op.
bool ways_give_equal_bits();

}  // namespace troupe::tensor

#pragma once

namespace troupe::tensor::cuda {

/// Sets in the environment what the driver is to read, unless it is set there. The driver reads it
/// once, so this comes before the first call of CUDA, while no other thread changes the
/// environment.
///
/// A kernel of a collective runs until other GPUs have come to theirs, so nothing that they wait
/// for may wait for it:
///
/// - CUDA_DEVICE_MAX_CONNECTIONS=32, the most there are. Streams share the GPU's hardware queues,
///   8 by default, and in one queue work waits for all before it, whatever its stream.
/// - CUDA_MODULE_LOADING=EAGER: kernels are loaded with the context. Else a kernel is loaded when
///   it is first launched, for which the GPU has to run dry, with the context locked meanwhile.
void set_driver_environment();

}  // namespace troupe::tensor::cuda

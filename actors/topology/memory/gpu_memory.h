#pragma once

#include <cstdint>

#include "stages/decoder/stage/transformer_stage.h"

// What a stage takes of a GPU's memory, estimated from shapes alone, so that a run can be planned
// on a machine without a GPU.

namespace troupe::actors {

/// What a process takes of a GPU before it allocates anything: its context, and the code of kernels
/// and libraries. An estimate, for when it was not measured (RunSpec::Cluster::context_bytes).
inline constexpr std::int64_t kContextBytes = std::int64_t{512} << 20;
/// What the libraries of CUDA add to a worker process. Measured: cuBLASLt alone takes 200 MB of
/// resident memory.
inline constexpr std::int64_t kCudaHostBytes = std::int64_t{200} << 20;

/// Bytes of the weights in the form that products read: a copy in the type of computation.
/// `memory.weights` is the stage's.
std::int64_t packed_bytes_on_gpu(const stages::StageSpec& spec, const stages::StageMemory& memory);

/// Bytes of scratch of cuBLASLt (what its documentation recommends for Hopper, for each of two
/// streams) and of cuDNN's attention. The backward of the latter keeps the gradient of the queries
/// in float32, if it is deterministic once for each 256 keys (128 for heads of 64), and the
/// gradients of keys and values of grouped queries for each query head. These are the sizes that
/// plans of cuDNN 9.19 tell for heads of 64 and 128. Documents, of which as many at a time as there
/// are samples are computed, take as much, and what their rotation and their bounds take.
std::int64_t workspace_on_gpu(const stages::StageSpec& spec, bool deterministic);

}  // namespace troupe::actors

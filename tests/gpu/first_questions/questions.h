#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>

// What only a GPU answers. Each function returns its answer as a text for people, and throws
// std::exception if it has none.

namespace troupe::test {

std::string contexts();           ///< time and memory that a process takes
std::string devices();            ///< order, names, UUIDs
std::string copy_bandwidth();     ///< within the GPU, and to and from pinned memory
std::string registered_memory();  ///< whether shared memory can be pinned
std::string attention_workspace();

std::string shared_allocation();        ///< memory of one process, used by another
std::string shared_event();             ///< an event of one process, waited for by another
std::string death_of_the_owner();       ///< what a reader sees whose memory's owner is killed
std::string death_of_the_user();        ///< what an owner sees whose memory's writer is killed
std::string wait_for_a_dead_process();  ///< whether a stream goes on that waits for its event

std::string two_nccl_ranks();  ///< whether two ranks on one GPU add, and end by an abort

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(error));
}

/// Makes a stream busy for about so many milliseconds.
void spin(cudaStream_t stream, double milliseconds);

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace troupe::test

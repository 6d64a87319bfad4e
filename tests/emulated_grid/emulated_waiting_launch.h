#pragma once

// launch_waiting() on emulated grids. Included by tensor/cuda/kernels/grid/waiting_launch.h only.

#include "tests/emulated_grid/emulated_grid.h"

namespace troupe::tensor::cuda {

/// The kernel may wait for one of another grid, but for no other block of its own: it runs on the
/// thread of the stream's queue, its blocks one after the other.
template <typename... Parameters, typename... Arguments>
void launch_waiting(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, cudaStream_t stream,
                    const Arguments&... arguments) {
  auto& grid = emulated_grid::Grid::of(stream);
  const emulated_grid::LaunchSize size{
      blocks, threads, 0, emulated_grid::thread_bound(reinterpret_cast<const void*>(kernel))};
  grid.queue().run_apart([&grid, size, kernel, ... values = static_cast<Parameters>(arguments)] {
    grid.run(size, [&] { kernel(values...); });
  });
}

}  // namespace troupe::tensor::cuda

#include "tensor/cpu/products/thread_team.h"

#include <fmt/format.h>
#include <omp.h>

#include "tensor/errors/error.h"

namespace troupe::tensor {

ThreadTeam::ThreadTeam(int threads) : threads_(threads), before_(omp_get_max_threads()) {
  omp_set_num_threads(threads);
  omp_set_dynamic(0);
  if (omp_get_max_active_levels() < 1) omp_set_max_active_levels(1);
}

ThreadTeam::~ThreadTeam() {
  omp_set_num_threads(before_);
}

void ThreadTeam::check() const {
  int got = 0;
#pragma omp parallel
#pragma omp single
  got = omp_get_num_threads();
  if (got >= threads_) return;
  throw Error(ErrorKind::unavailable,
              fmt::format("OpenMP gives {} of the {} threads that a product is divided among, so "
                          "that its sums would lack parts; unset the variables OMP_*, or compute "
                          "with {} threads",
                          got, threads_, got));
}

void require_openmp_threads(int threads) {
  const int limit = omp_get_thread_limit();
  if (limit >= threads) return;
  throw Error(ErrorKind::unavailable,
              fmt::format("OMP_THREAD_LIMIT = {} leaves this process too few threads: {} are asked "
                          "for (cluster.threads or --threads); unset it, or ask for {}",
                          limit, threads, limit));
}

}  // namespace troupe::tensor

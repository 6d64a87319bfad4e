#pragma once

namespace troupe::tensor {

/// OpenMP's settings of the calling thread for a time in which a parallel region gets exactly
/// `threads` threads: oneDNN divides a product among as many when it prepares it, and what a
/// missing thread would have added is lost without an error. Neither OMP_NUM_THREADS, OMP_DYNAMIC
/// nor OMP_MAX_ACTIVE_LEVELS changes that; a limit of the process, which no call can raise, is
/// refused by require_openmp_threads().
class ThreadTeam {
 public:
  explicit ThreadTeam(int threads);
  /// Restores the number of threads.
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  /// Asks a parallel region for the number of its threads. Throws Error{unavailable} if they are
  /// fewer than those of the team.
  void check() const;

 private:
  const int threads_;
  const int before_;
};

/// Throws Error{unavailable} if OMP_THREAD_LIMIT leaves this process fewer threads. Starts none.
void require_openmp_threads(int threads);

}  // namespace troupe::tensor

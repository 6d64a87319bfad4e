#include "actors/worker/core_binding.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace troupe::actors {

CoreBinding::CoreBinding() {
  CPU_ZERO(&allowed_);
  sched_getaffinity(0, sizeof allowed_, &allowed_);
  bound_ = allowed_;
}

void CoreBinding::bind(int place, int count) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  int seen = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed_) && seen++ / count == place) CPU_SET(cpu, &mine);
  apply(CPU_COUNT(&mine) == count ? mine : allowed_);
}

void CoreBinding::release() {
  apply(allowed_);
}

/// Binds all threads; a new thread inherits the cores of the one that starts it. A thread that ends
/// meanwhile does no harm.
void CoreBinding::apply(const cpu_set_t& cores) {
  if (CPU_EQUAL(&cores, &bound_)) return;
  bound_ = cores;
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored))
    sched_setaffinity(std::atoi(task.path().filename().c_str()), sizeof cores, &cores);
}

}  // namespace troupe::actors

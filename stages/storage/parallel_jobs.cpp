#include "stages/storage/parallel_jobs.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace troupe::stages {

void carry_out(int threads, std::size_t count, const std::function<Job()>& make) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;  // guards the two below
  std::size_t failed = count;
  std::exception_ptr error;
  const auto work = [&] {
    std::size_t number = 0;
    try {
      const Job job = make();
      while ((number = next++) < count) job(number);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (error && failed < number) return;
      failed = number;
      error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;  // they work beside this thread
    try {
      for (std::size_t i = 1; i < count && i < static_cast<std::size_t>(threads); ++i)
        helpers.emplace_back(work);
    } catch (const std::system_error&) {
      // The machine has no thread left: those that began do the work.
    }
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace troupe::stages

#pragma once

#include <sched.h>

namespace troupe::actors {

/// The cores that this process may use, and those that it is bound to. Not thread-safe.
class CoreBinding {
 public:
  /// Allows the process the cores that the calling thread may use now.
  CoreBinding();

  /// Binds every thread of the process, and those that they start, to `count` cores: place 0 has
  /// the first ones, place 1 the next, and so on. If there are not enough for this place, it may
  /// use all.
  void bind(int place, int count);
  /// Lets the process use all allowed cores again.
  void release();
  int num_allowed() const { return CPU_COUNT(&allowed_); }

 private:
  void apply(const cpu_set_t& cores);

  cpu_set_t allowed_;
  cpu_set_t bound_;
};

}  // namespace troupe::actors

#pragma once

#include <sched.h>

namespace troupe::actors {

/// The cores that this process may use, and which of them it does. One thread at a time.
class CoreBinding {
 public:
  /// It may use those that this thread may use now.
  CoreBinding();

  /// Binds every thread of the process, and those that they start, to `count` cores: worker 0 takes
  /// the first ones, and so on. Where there are not enough for this one it may use all.
  void bind(int worker, int count);
  /// It may use all again.
  void release();

 private:
  void apply(const cpu_set_t& cores);

  cpu_set_t allowed_;
  cpu_set_t bound_;
};

}  // namespace troupe::actors

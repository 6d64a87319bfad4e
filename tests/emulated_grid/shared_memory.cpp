#include "tests/emulated_grid/shared_memory.h"

#include <fmt/core.h>

#include <cstring>

namespace troupe::emulated_grid {

SharedMemory::SharedMemory(std::string name, Place place, const char* type, std::size_t size,
                           long long n)
    : name_(std::move(name)),
      place_(place),
      type_(type),
      size_(size),
      n_(n),
      bytes_(size * static_cast<std::size_t>(n), std::byte{0xff}),
      logs_(static_cast<std::size_t>(n)) {}

bool SharedMemory::is(const Place& place, const char* type, long long n) const {
  return n == n_ && place == place_ && std::strcmp(type, type_) == 0;
}

const std::byte* SharedMemory::read(long long i, const Access& access) {
  Log& log = log_of(i, access);
  check_not_after_write(i, log, access, "reads");
  if (log.read && log.reader / kWarp != access.thread / kWarp) log.many_readers = true;
  if (!log.many_readers)
    log.read_at[access.thread % kWarp] = (*access.clock)[access.thread % kWarp];
  log.read = true;
  log.reader = access.thread;
  return bytes_.data() + static_cast<std::size_t>(i) * size_;
}

std::byte* SharedMemory::write(long long i, const Access& access) {
  Log& log = log_of(i, access);
  check_not_after_write(i, log, access, "writes");
  check_not_after_read(i, log, access);
  log.written = true;
  log.writer = access.thread;
  log.written_at = (*access.clock)[access.thread % kWarp];
  return bytes_.data() + static_cast<std::size_t>(i) * size_;
}

SharedMemory::Log& SharedMemory::log_of(long long i, const Access& access) {
  if (i < 0 || i >= n_) {
    throw Fault(fmt::format("{}: thread {} accesses {}[{}], which has {} elements",
                            to_string(place_), access.thread, name_, i, n_));
  }
  Log& log = logs_[static_cast<std::size_t>(i)];
  if (log.configuration != access.configuration) log = Log{.configuration = access.configuration};
  return log;
}

void SharedMemory::check_not_after_write(long long i, const Log& log, const Access& access,
                                         const char* what) const {
  if (!log.written || log.writer == access.thread) return;
  const bool same_warp = log.writer / kWarp == access.thread / kWarp;
  if (same_warp && (*access.clock)[log.writer % kWarp] >= log.written_at) return;
  race(i, log.writer, "writes", access.thread, what);
}

void SharedMemory::check_not_after_read(long long i, const Log& log, const Access& access) const {
  if (!log.read) return;
  const unsigned warp = access.thread / kWarp;
  if (log.reader / kWarp != warp) race(i, log.reader, "reads", access.thread, "writes");
  if (log.many_readers)
    race(i, log.reader, "and threads of other warps read", access.thread, "writes");
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if (lane == access.thread % kWarp || log.read_at[lane] == 0) continue;
    if ((*access.clock)[lane] < log.read_at[lane]) {
      race(i, warp * kWarp + lane, "reads", access.thread, "writes");
    }
  }
}

void SharedMemory::race(long long i, unsigned first, const char* did, unsigned second,
                        const char* does) const {
  throw Fault(
      fmt::format("{}: race for {}[{}]: thread {} {} it and thread {} {} it with no barrier "
                  "between",
                  to_string(place_), name_, i, first, did, second, does));
}

}  // namespace troupe::emulated_grid

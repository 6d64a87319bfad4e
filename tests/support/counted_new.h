#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

// Replaces the operator new of the program that includes this, in one of its files, by one that
// counts. C libraries such as UCX do not use it, so that only the program's own allocations count.

namespace troupe::test {

/// The allocations of the process up to now, on all threads.
inline std::atomic<long> allocations{0};

}  // namespace troupe::test

// Not inlined, because the compiler would see a free() of memory that a new expression made.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  troupe::test::allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes > 0 ? bytes : 1);
}
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* data = operator new(bytes, std::nothrow)) return data;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* data) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept {
  std::free(data);
}

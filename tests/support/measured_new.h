#pragma once

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

// Replaces the operator new of the program that includes this, in one of its files, by one that
// measures the memory that is taken.

namespace troupe::test {

/// Bytes that are taken now, and the most that were at once since a test has set it.
inline std::atomic<std::size_t> live_bytes = 0, most_bytes = 0;

}  // namespace troupe::test

// Not inlined, because the compiler would see a free() of memory that a new expression made.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* data = std::malloc(bytes > 0 ? bytes : 1);
  if (!data) throw std::bad_alloc();
  const std::size_t live = troupe::test::live_bytes += malloc_usable_size(data);
  for (std::size_t most = troupe::test::most_bytes; most < live;)
    if (troupe::test::most_bytes.compare_exchange_weak(most, live)) break;
  return data;
}
// std::stable_sort asks for its memory so.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* data) noexcept {
  troupe::test::live_bytes -= malloc_usable_size(data);
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept {
  operator delete(data);
}

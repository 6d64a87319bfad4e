#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "tensor/device/attention.h"
#include "tensor/device/device.h"
#include "tensor/device/op_list.h"
#include "tensor/errors/error.h"

// Device memory that the host cannot touch: an address of it is that of ordinary memory with one
// bit set, with which no process has memory. Whoever follows the address dies at once, and a call
// of the system refuses it. Arithmetic on it works as on any other.

namespace troupe::test {

/// Beyond the 47 or 48 bits of a process's addresses on x86-64 and ARM, and below the top byte,
/// which ARM ignores.
inline constexpr std::uintptr_t kGuardBit = std::uintptr_t{1} << 50;

/// The memory itself of an address, which may be one of ordinary memory.
inline void* opened(const void* data) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(data) & ~kGuardBit);
}
inline bool is_guarded(const void* data) {
  return (reinterpret_cast<std::uintptr_t>(data) & kGuardBit) != 0;
}
/// The view with an address that the host can follow. What ops write is there once they have run.
inline tensor::Tensor opened(tensor::Tensor x) {
  x.data = opened(x.data);
  return x;
}
inline tensor::AttentionCall opened(tensor::AttentionCall call) {
  call.mask = opened(call.mask);
  call.documents = opened(call.documents);
  return call;
}
inline tensor::CachedTokens opened(tensor::CachedTokens tokens) {
  for (tensor::Tensor* x : {&tokens.sequences, &tokens.positions, &tokens.cos, &tokens.sin})
    *x = opened(*x);
  return tokens;
}
inline tensor::RouterLosses opened(tensor::RouterLosses losses) {
  for (tensor::Tensor* x : {&losses.balance, &losses.lse, &losses.counted}) *x = opened(*x);
  return losses;
}
/// An argument of an op, opened if it holds an address.
template <typename T>
auto opened_argument(const T& x) {
  if constexpr (requires { opened(x); })
    return opened(x);
  else
    return x;
}

/// The address of device memory that lies at `data`.
inline void* guarded(void* data) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(data) | kGuardBit);
}

/// How much guarded memory there is, and how much of it is in use.
struct GuardedSpace {
  std::size_t total = 0;  ///< 0: any amount
  std::atomic<std::size_t> used{0};
};

/// Memory of the space, which outlives it. Throws Error{internal} if it has not that much left.
inline tensor::Buffer allocate_guarded(std::size_t bytes, GuardedSpace& space) {
  constexpr std::size_t kAlignment = 256;
  const std::size_t size = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if ((space.used += bytes) > space.total && space.total > 0) {
    space.used -= bytes;
    throw Error(ErrorKind::internal, "the device of tests has " + std::to_string(space.total) +
                                         " bytes, of which " + std::to_string(space.used) +
                                         " are used: no room for " + std::to_string(bytes));
  }
  // What frees a buffer knows no more than its address: the space is noted before that.
  void* const block = std::aligned_alloc(kAlignment, kAlignment + size);
  if (!block) throw std::bad_alloc();
  *static_cast<GuardedSpace**>(block) = &space;
  void* const data = static_cast<std::byte*>(block) + kAlignment;
  std::memset(data, 0, size);
  return {guarded(data), bytes, tensor::MemoryKind::device, [](void* memory, std::size_t length) {
            void* const first = static_cast<std::byte*>(opened(memory)) - kAlignment;
            (*static_cast<GuardedSpace**>(first))->used -= length;
            std::free(first);
          }};
}

}  // namespace troupe::test

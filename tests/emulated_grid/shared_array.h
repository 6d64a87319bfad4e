#pragma once

#include <cstring>
#include <type_traits>
#include <typeinfo>

#include "tests/emulated_grid/block.h"

namespace troupe::emulated_grid {

/// An element of a shared array. Reading and writing it are checked; it has no address.
template <typename T>
class SharedElement {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SharedElement(SharedMemory& memory, long long i) : memory_(memory), i_(i) {}
  SharedElement(const SharedElement&) = default;

  operator T() const {
    T value;
    std::memcpy(&value, memory_.read(i_, Block::current().access()), sizeof(T));
    return value;
  }
  const SharedElement& operator=(const T& value) const {
    std::memcpy(memory_.write(i_, Block::current().access()), &value, sizeof(T));
    return *this;
  }
  const SharedElement& operator=(const SharedElement& other) const {
    return *this = static_cast<T>(other);
  }
  const SharedElement& operator+=(const T& value) const { return *this = T(*this) + value; }
  const SharedElement& operator-=(const T& value) const { return *this = T(*this) - value; }
  const SharedElement& operator*=(const T& value) const { return *this = T(*this) * value; }
  void operator&() const = delete;

 private:
  SharedMemory& memory_;
  const long long i_;
};

/// What SHARED(T, name, n) declares: name[i] is an element. A function may take it by value or by
/// reference as a template parameter; it does not become a pointer.
template <typename T>
class SharedArray {
 public:
  explicit SharedArray(SharedMemory& memory) : memory_(memory) {}

  template <typename Index>
  SharedElement<T> operator[](Index i) const {
    return {memory_, static_cast<long long>(i)};
  }

 private:
  SharedMemory& memory_;
};

/// The running block's array that is declared at this place.
template <typename T>
SharedArray<T> shared_array(const char* name, const Place& place, long long n) {
  return SharedArray<T>(Block::current().shared(name, place, typeid(T).name(), sizeof(T), n));
}

}  // namespace troupe::emulated_grid

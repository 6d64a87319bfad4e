#pragma once

#include <bit>
#include <caf/error.hpp>
#include <caf/meta/load_callback.hpp>
#include <caf/sec.hpp>
#include <cstdint>
#include <string>
#include <vector>

// How CAF serialises the numbers of messages. Floating-point numbers are sent as their bits,
// because CAF 0.17 cannot encode infinities.

namespace troupe::actors {

/// Numbers that are sent as their bits.
struct NumberOnWire {
  double& number;
};
struct NumbersOnWire {
  std::vector<double>& numbers;
};
/// A count that is sent without its leading zeros: most are small, and signs of life are full of
/// them.
struct CountOnWire {
  std::uint64_t& count;
};
template <typename Field>
Field& on_wire(Field& field) {
  return field;
}
inline NumberOnWire on_wire(double& number) {
  return {number};
}
inline NumbersOnWire on_wire(std::vector<double>& numbers) {
  return {numbers};
}
inline CountOnWire on_wire(std::uint64_t& count) {
  return {count};
}

template <typename Inspector>
typename Inspector::result_type inspect(Inspector& f, NumberOnWire& x) {
  auto bits = std::bit_cast<std::uint64_t>(x.number);
  const auto load = [&]() -> caf::error {
    x.number = std::bit_cast<double>(bits);
    return caf::none;
  };
  return f(bits, caf::meta::load_callback(load));
}

template <typename Inspector>
typename Inspector::result_type inspect(Inspector& f, NumbersOnWire& x) {
  std::vector<std::uint64_t> bits;
  if constexpr (Inspector::reads_state)
    for (const double number : x.numbers) bits.push_back(std::bit_cast<std::uint64_t>(number));
  const auto load = [&]() -> caf::error {
    x.numbers.clear();
    for (const std::uint64_t number : bits) x.numbers.push_back(std::bit_cast<double>(number));
    return caf::none;
  };
  return f(bits, caf::meta::load_callback(load));
}

template <typename Inspector>
typename Inspector::result_type inspect(Inspector& f, CountOnWire& x) {
  std::string bytes;
  if constexpr (Inspector::reads_state)
    for (std::uint64_t left = x.count; left != 0; left >>= 8)
      bytes.push_back(static_cast<char>(left & 0xff));
  const auto load = [&]() -> caf::error {
    if (bytes.size() > sizeof x.count) return caf::sec::invalid_argument;
    x.count = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      x.count |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return caf::none;
  };
  return f(bytes, caf::meta::load_callback(load));
}

}  // namespace troupe::actors

#pragma once

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// A reader of TensorBoard's event files, made from the format's description.

namespace troupe::test {

inline std::uint64_t little_endian(std::string_view bytes, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

/// The data of each record. check(bytes, sum) is called with what each checksum is of.
template <typename Check>
std::vector<std::string> event_records(std::string_view bytes, const Check& check) {
  std::vector<std::string> records;
  while (!bytes.empty()) {
    BOOST_REQUIRE(bytes.size() >= 16u);
    const std::size_t length = little_endian(bytes, 8);
    BOOST_REQUIRE(bytes.size() >= 16 + length);
    const std::string_view data = bytes.substr(12, length);
    check(bytes.substr(0, 8), little_endian(bytes.substr(8), 4));
    check(data, little_endian(bytes.substr(12 + length), 4));
    records.emplace_back(data);
    bytes.remove_prefix(16 + length);
  }
  return records;
}

/// A message's fields by number: the raw value of numbers, the bytes of everything else.
struct Fields {
  std::map<int, std::uint64_t> numbers;
  std::map<int, std::string> texts;
};
inline std::uint64_t varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    BOOST_REQUIRE(!bytes.empty());
    const auto byte = static_cast<unsigned char>(bytes[0]);
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
}
inline Fields fields_of(std::string_view bytes) {
  Fields fields;
  while (!bytes.empty()) {
    const std::uint64_t key = varint(bytes);
    const int number = static_cast<int>(key >> 3);
    const std::map<int, std::size_t> fixed{{1, 8}, {5, 4}};
    if ((key & 7) == 0) {
      fields.numbers[number] = varint(bytes);
    } else if ((key & 7) == 2) {
      const std::size_t length = varint(bytes);
      fields.texts[number] = bytes.substr(0, length);
      bytes.remove_prefix(length);
    } else {
      const std::size_t size = fixed.at(static_cast<int>(key & 7));
      fields.numbers[number] = little_endian(bytes, size);
      bytes.remove_prefix(size);
    }
  }
  return fields;
}

inline std::vector<double> doubles_of(std::string_view packed) {
  std::vector<double> values;
  for (; packed.size() >= 8; packed.remove_prefix(8))
    values.push_back(std::bit_cast<double>(little_endian(packed, 8)));
  return values;
}

}  // namespace troupe::test

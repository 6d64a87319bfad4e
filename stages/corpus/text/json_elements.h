#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace troupe::stages {

/// A line of JSON lines, or an element of a list of JSON.
struct JsonElement {
  std::string_view text;
  std::int64_t line = 1;   ///< at which it begins
  std::uint64_t byte = 0;  ///< of the unpacked file, from 0
};
using UseElement = std::function<void(const JsonElement&)>;

// Each reads a file, unpacked if it is packed, and hands over what it holds in order. Memory is
// bounded by the longest element. Throw Error{data} naming a file that cannot be read, or is no
// list to its end.
/// The lines that are not blank.
void for_each_line(const std::string& path, const UseElement& use);
/// The elements of the one list that the file is.
void for_each_element(const std::string& path, const UseElement& use);

}  // namespace troupe::stages

#pragma once

#include <cstdint>
#include <string>

// Quantities as people read them.

namespace troupe::launch {

/// A number of bytes in binary units: "1.5 GiB", "312.0 KiB".
std::string bytes_text(std::int64_t bytes);
/// A number with its digits grouped: "12,345,678".
std::string grouped(std::int64_t number);
/// A duration as hours, minutes and seconds, with days if there are any: "0:05:13", "2d 3:04:05".
std::string duration_text(double seconds);
/// A duration of any length, to three digits below a minute: "62.9 us", "12.3 ms", "4.56 s",
/// "1:02:03".
std::string span_text(double seconds);

}  // namespace troupe::launch

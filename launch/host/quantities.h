#pragma once

#include <cstdint>
#include <string>

// Quantities as people read them.

namespace troupe::launch {

/// "1.5 GiB", "312.0 KiB".
std::string bytes_text(std::int64_t bytes);
/// "12,345,678".
std::string grouped(std::int64_t number);
/// "0:05:13", "2d 3:04:05".
std::string duration_text(double seconds);

}  // namespace troupe::launch

#include "launch/host/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace troupe::launch {

std::string bytes_text(std::int64_t bytes) {
  double amount = static_cast<double>(bytes);
  if (bytes < 1024) return fmt::format("{} B", bytes);
  std::string_view unit;
  for (const std::string_view next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (amount < 1024) break;
    amount /= 1024;
    unit = next;
  }
  return fmt::format("{:.1f} {}", amount, unit);
}

std::string grouped(std::int64_t number) {
  std::string text = fmt::format("{}", number);
  for (std::ptrdiff_t at = std::ssize(text) - 3; at > (number < 0 ? 1 : 0); at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e15));
  const std::string time =
      fmt::format("{}:{:02}:{:02}", whole / 3600 % 24, whole / 60 % 60, whole % 60);
  return whole >= 86400 ? fmt::format("{}d {}", whole / 86400, time) : time;
}

std::string span_text(double seconds) {
  if (seconds > 0 && seconds < 1e-4) return fmt::format("{:.3g} us", 1e6 * seconds);
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", 1e3 * seconds);
  if (seconds < 60) return fmt::format("{:.3g} s", seconds);
  return duration_text(seconds);
}

}  // namespace troupe::launch

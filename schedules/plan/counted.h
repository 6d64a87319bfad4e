#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::schedules {

/// A number and a noun for texts that users read: "1 rank", "2 ranks", "0 microbatches". For nouns
/// whose plural ends with s or, after ch, with es.
inline std::string counted(std::int64_t number, std::string_view noun) {
  const char* const ending = number == 1 ? "" : noun.ends_with("ch") ? "es" : "s";
  return std::to_string(number) + " " + std::string(noun) + ending;
}

/// The parts one after the other, numbers as a stream writes them.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return std::move(text).str();
}

}  // namespace troupe::schedules

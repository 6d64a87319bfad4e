#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::schedules {

/// A number and a noun for texts that users read: "1 rank", "2 ranks", "0 microbatches". For nouns
/// whose plural ends with s or, after ch, with es.
inline std::string counted(std::int64_t number, std::string_view noun) {
  const char* const ending = number == 1 ? "" : noun.ends_with("ch") ? "es" : "s";
  return std::to_string(number) + " " + std::string(noun) + ending;
}

}  // namespace troupe::schedules

#include "stages/corpus/chat/chat_date.h"

#include <fmt/format.h>

#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

constexpr const char* kFormat = "%Y-%m-%d";

std::string text_of(const std::tm& day) {
  std::string text(32, '\0');
  text.resize(std::strftime(text.data(), text.size(), kFormat, &day));
  return text;
}

}  // namespace

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return text_of(local);
}

std::tm begin_of_day(const std::string& date) {
  std::tm day{};
  const char* end = ::strptime(date.c_str(), kFormat, &day);
  if (end && *end == '\0') {
    const std::time_t seconds = ::timegm(&day);  // finds the day of the week and of the year
    std::tm found{};
    ::gmtime_r(&seconds, &found);
    if (text_of(found) == date) return found;
  }
  throw Error(ErrorKind::data,
              fmt::format("'{}' is no day; give it as YYYY-MM-DD, as 2024-07-26", date));
}

}  // namespace troupe::stages

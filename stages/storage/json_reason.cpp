#include "stages/storage/json_reason.h"

namespace troupe::stages {
namespace {

constexpr std::size_t kLongest = 160;

bool continues_a_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

}  // namespace

std::string json_reason(const nlohmann::json::exception& error) {
  std::string reason = error.what();
  for (const std::string_view before : {"] ", "parse error at "})
    if (const auto at = reason.find(before); at != std::string::npos)
      reason.erase(0, at + before.size());
  if (reason.size() <= kLongest) return reason;
  std::size_t end = kLongest;
  while (end > 0 && continues_a_character(reason[end])) --end;
  return reason.substr(0, end) + "...";
}

}  // namespace troupe::stages

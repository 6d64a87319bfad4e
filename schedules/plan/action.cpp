#include "schedules/plan/action.h"

#include <charconv>

namespace troupe::schedules {
namespace {

/// Takes the decimal number at the front of `text`; none if there is no number or it has a leading
/// zero.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto length = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || text[0] == '-' || (text[0] == '0' && length > 1)) return {};
  text.remove_prefix(length);
  return number;
}

}  // namespace

std::string to_string(const Action& action) {
  return std::to_string(action.chunk) + static_cast<char>(action.op) +
         std::to_string(action.microbatch);
}

std::optional<Action> parse_action(std::string_view text) {
  const std::optional<int> chunk = take_number(text);
  if (!chunk || text.empty()) return {};
  const char op = text[0];
  if (std::string_view("FBIW").find(op) == std::string_view::npos) return {};
  text.remove_prefix(1);
  const std::optional<int> microbatch = take_number(text);
  if (!microbatch || !text.empty()) return {};
  return Action{.chunk = *chunk, .op = static_cast<Op>(op), .microbatch = *microbatch};
}

}  // namespace troupe::schedules

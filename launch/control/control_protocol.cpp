#include "launch/control/control_protocol.h"

#include <cstdint>

#include "actors/messages/secret.h"

namespace troupe::launch {
namespace {

constexpr std::size_t kLengthBytes = 4;

std::size_t length_of(std::string_view bytes) {
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return length;
}

}  // namespace

std::string to_text(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string to_frame(std::string_view text) {
  std::string frame;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    frame += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return frame.append(text);
}

std::string to_frame(const nlohmann::json& json) {
  return to_frame(std::string_view(to_text(json)));
}

std::optional<std::string> FrameReader::next() {
  if (broken_ || buffer_.size() < kLengthBytes) return std::nullopt;
  const std::size_t length = length_of(buffer_);
  if (length == 0 || length > max_bytes_) {
    broken_ = true;
    return std::nullopt;
  }
  if (buffer_.size() < kLengthBytes + length) return std::nullopt;
  std::string frame = buffer_.substr(kLengthBytes, length);
  buffer_.erase(0, kLengthBytes + length);
  return frame;
}

std::optional<nlohmann::json> authenticated_request(const std::string& frame,
                                                    const std::string& token) {
  nlohmann::json json = nlohmann::json::parse(frame, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto shown = json.find("token");
  const auto request = json.find("request");
  if (shown == json.end() || !shown->is_string() || request == json.end() || !request->is_string())
    return std::nullopt;
  if (!actors::equal_secrets(shown->get<std::string>(), token)) return std::nullopt;
  return json;
}

}  // namespace troupe::launch

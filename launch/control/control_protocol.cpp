#include "launch/control/control_protocol.h"

#include <algorithm>
#include <cstdint>

#include "actors/messages/secret.h"
#include "launch/control/memory_json.h"

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

nlohmann::json to_json(const actors::Pipeline& pipeline) {
  return {{"pp", pipeline.pp},         {"dp", pipeline.dp},
          {"tp", pipeline.tp},         {"stage_of_chunk", pipeline.stage_of_chunk},
          {"copies", pipeline.copies}, {"microbatches", pipeline.microbatches}};
}

namespace {

/// The progress of work that takes longer than a step.
nlohmann::json progress_of(const actors::RunStatus& status) {
  nlohmann::json progress = nlohmann::json::array();
  if (status.catch_up)
    progress.push_back({{"what", kCatchingUp},
                        {"done", status.step - status.catch_up->back_to},
                        {"of", status.catch_up->reached - status.catch_up->back_to},
                        {"unit", "steps"}});
  if (status.evaluated)
    progress.push_back({{"what", "evaluation"},
                        {"done", *status.evaluated},
                        {"of", status.evaluations},
                        {"unit", "steps"}});
  if (!status.saving) return progress;
  std::uint64_t saved = 0;
  for (const auto& rank : status.ranks) saved += rank.saved_bytes;
  progress.push_back({{"what", "checkpoint of step " + std::to_string(*status.saving)},
                      {"done", std::min(saved, status.checkpoint_bytes)},
                      {"of", status.checkpoint_bytes},
                      {"unit", "bytes"}});
  return progress;
}

}  // namespace

nlohmann::json to_json(const actors::RunStatus& status, const std::string& run) {
  nlohmann::json ranks = nlohmann::json::array();
  std::uint64_t resident_bytes = 0;
  for (const auto& r : status.ranks) resident_bytes += r.resident_bytes;
  for (const auto& r : status.ranks)
    ranks.push_back({{"rank", r.rank},
                     {"replica", r.replica},
                     {"stage", r.stage},
                     {"shard", r.shard},
                     {"pid", r.pid},
                     {"host", r.host},
                     {"state", r.state},
                     {"waiting_for", r.waiting_for},
                     {"resident_bytes", r.resident_bytes},
                     {"memory_bytes", to_json(r.allocated)}});
  return {{"run", run},
          {"state", status.state},
          {"step", status.step},
          {"max_steps", status.max_steps},
          {"configuration", status.configuration},
          {"refused", status.refused},
          {"pipeline", to_json(status.pipeline)},
          {"progress", progress_of(status)},
          {"resident_bytes", resident_bytes},
          {"ranks", ranks}};
}

}  // namespace troupe::launch

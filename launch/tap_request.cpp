#include "launch/tap_request.h"

#include <charconv>

#include "tensor/error.h"

namespace troupe::launch {

actors::TapRequest parse_edge(const std::string& text) {
  actors::TapRequest request;
  const char* const end = text.data() + text.size();
  const auto from = std::from_chars(text.data(), end, request.from);
  const bool has_colon = from.ec == std::errc() && from.ptr != end && *from.ptr == ':';
  const auto to = has_colon ? std::from_chars(from.ptr + 1, end, request.to) : from;
  if (!has_colon || to.ec != std::errc() || to.ptr != end || request.from < 0 || request.to < 0)
    throw Error(ErrorKind::usage,
                "--edge " + text + " must be the ranks of a sender and its receiver, such as 0:1");
  return request;
}

nlohmann::json to_json(const actors::TapRequest& request) {
  return {{"from", request.from},
          {"to", request.to},
          {"backward", request.backward},
          {"every", request.every},
          {"microbatch", request.microbatch},
          {"only_not_finite", request.only_not_finite},
          {"dump", request.dump}};
}

actors::TapRequest parse_tap(const nlohmann::json& fields) {
  try {
    actors::TapRequest request{.from = fields.at("from").get<int>(),
                               .to = fields.at("to").get<int>(),
                               .backward = fields.value("backward", false),
                               .every = fields.value("every", std::int64_t{1}),
                               .microbatch = fields.value("microbatch", -1),
                               .only_not_finite = fields.value("only_not_finite", false),
                               .dump = fields.value("dump", false)};
    if (request.every < 1) throw Error(ErrorKind::usage, "every must be at least 1 step");
    return request;
  } catch (const nlohmann::json::exception& e) {
    throw Error(ErrorKind::usage, std::string("no tap: ") + e.what());
  }
}

bool fits(const actors::TapRequest& request, const nlohmann::json& event) {
  return event.value("kind", "") == "tensor" && event.value("rank", -1) == request.from &&
         event.value("to", -1) == request.to &&
         event.value("direction", "") == (request.backward ? "backward" : "forward") &&
         event.value("step", std::int64_t{0}) % request.every == 0 &&
         (request.microbatch < 0 || event.value("microbatch", -1) == request.microbatch) &&
         (!request.only_not_finite || event.value("not_finite", std::int64_t{0}) > 0);
}

}  // namespace troupe::launch

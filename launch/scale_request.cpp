#include "launch/scale_request.h"

#include <charconv>
#include <limits>

#include "tensor/error.h"

namespace troupe::launch {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorKind::usage, text);
}

int count_in(const nlohmann::json& value, const char* field) {
  constexpr int kMax = std::numeric_limits<int>::max();
  if (!value.is_number_integer() || value < -kMax || value > kMax)
    refuse(std::string(field) + " must be a whole number");
  return value.get<int>();
}

}  // namespace

std::vector<int> parse_layers(const std::string& name, const std::string& text) {
  std::vector<int> layers;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    int count = 0;
    const auto [stop, error] = std::from_chars(at, end, count);
    if (error != std::errc() || (stop < end && *stop != ',') || stop + 1 == end)
      refuse(name + " " + text + " must be numbers of layers, such as 3,2,1");
    layers.push_back(count);
    at = stop < end ? stop + 1 : end;
  }
  return layers;
}

nlohmann::json to_json(const actors::ScaleRequest& request) {
  nlohmann::json fields = nlohmann::json::object();
  if (request.pp) fields["pp"] = *request.pp;
  if (request.dp) fields["dp"] = *request.dp;
  if (!request.layers.empty()) fields["layers"] = request.layers;
  if (request.schedule) fields["schedule"] = *request.schedule;
  return fields;
}

actors::ScaleRequest parse_scale(const nlohmann::json& fields) {
  actors::ScaleRequest request{
      .pp = std::nullopt, .dp = std::nullopt, .layers = {}, .schedule = std::nullopt};
  if (fields.contains("pp")) request.pp = count_in(fields["pp"], "pp");
  if (fields.contains("dp")) request.dp = count_in(fields["dp"], "dp");
  if (fields.contains("layers")) {
    if (!fields["layers"].is_array()) refuse("layers must be a list of whole numbers");
    for (const auto& count : fields["layers"]) request.layers.push_back(count_in(count, "layers"));
  }
  if (fields.contains("schedule")) {
    if (!fields["schedule"].is_string()) refuse("schedule must be a text");
    request.schedule = fields["schedule"].get<std::string>();
  }
  return request;
}

}  // namespace troupe::launch

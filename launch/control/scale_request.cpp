#include "launch/control/scale_request.h"

#include <limits>

#include "tensor/error.h"

namespace troupe::launch {
namespace {

int count_in(const nlohmann::json& value, const char* field) {
  constexpr int kMax = std::numeric_limits<int>::max();
  if (!value.is_number_integer() || value < -kMax || value > kMax)
    refuse(std::string(field) + " must be a whole number");
  return value.get<int>();
}

std::string text_in(const nlohmann::json& value, const char* field) {
  if (!value.is_string()) refuse(std::string(field) + " must be a text");
  return value.get<std::string>();
}

}  // namespace

nlohmann::json to_json(const actors::ScaleRequest& request) {
  nlohmann::json fields = nlohmann::json::object();
  if (request.pp) fields["pp"] = *request.pp;
  if (request.dp) fields["dp"] = *request.dp;
  if (request.tp) fields["tp"] = *request.tp;
  if (request.layout) fields["layout"] = *request.layout;
  if (request.schedule) fields["schedule"] = *request.schedule;
  return fields;
}

actors::ScaleRequest parse_scale(const nlohmann::json& fields) {
  actors::ScaleRequest request;
  if (fields.contains("pp")) request.pp = count_in(fields["pp"], "pp");
  if (fields.contains("dp")) request.dp = count_in(fields["dp"], "dp");
  if (fields.contains("tp")) request.tp = count_in(fields["tp"], "tp");
  if (fields.contains("layout")) request.layout = text_in(fields["layout"], "layout");
  if (fields.contains("schedule")) request.schedule = text_in(fields["schedule"], "schedule");
  return request;
}

}  // namespace troupe::launch

#include "launch/control/scale_request.h"

#include "launch/control/request_fields.h"
#include "launch/manifest/toml/synonyms.h"
#include "tensor/error.h"

namespace troupe::launch {
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
  refuse_other_fields(fields, {"pp", "dp", "tp", "layout", "schedule"});
  actors::ScaleRequest request;
  request.pp = count_field(fields, "pp");
  request.dp = count_field(fields, "dp");
  request.tp = count_field(fields, "tp");
  request.layout = filled_field(fields, "layout");
  request.schedule = filled_field(fields, "schedule");
  if (const std::string synonym = value_synonym("schedule", "kind", request.schedule.value_or(""));
      !synonym.empty())
    refuse(synonym);
  return request;
}

}  // namespace troupe::launch

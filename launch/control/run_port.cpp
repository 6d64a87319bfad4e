#include "launch/control/run_port.h"

#include "launch/control/request_fields.h"
#include "launch/manifest/toml/synonyms.h"
#include "tensor/errors/error.h"

namespace troupe::launch {

actors::ScaleRequest parse_scale(const nlohmann::json& fields) {
  refuse_other_fields(
      fields, {"pp", "dp", "tp", "ep", "stage", "layout", "schedule", "without_hosts", "hosts"});
  actors::ScaleRequest request;
  request.pp = count_field(fields, "pp");
  request.dp = count_field(fields, "dp");
  request.tp = count_field(fields, "tp");
  request.ep = count_field(fields, "ep");
  request.stage = count_field(fields, "stage");
  request.layout = filled_field(fields, "layout");
  request.schedule = filled_field(fields, "schedule");
  request.without_hosts = names_field(fields, "without_hosts");
  request.hosts = count_field(fields, "hosts");
  if (const std::string synonym = value_synonym("schedule", "kind", request.schedule.value_or(""));
      !synonym.empty())
    refuse(synonym);
  return request;
}

}  // namespace troupe::launch

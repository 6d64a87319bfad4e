#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "actors/monitors/hub.h"
#include "actors/topology/reports/reports.h"
#include "actors/topology/scale.h"
#include "launch/run/json_fields.h"

namespace troupe::launch {

/// What may be asked and ordered of a run while it lives: by the control socket and by the page.
/// The calls may come from several threads at a time.
struct RunPort {
  std::function<nlohmann::json()> status;  ///< of its cluster, at least, as to_json() gives it
  /// Ends the run after the step in progress; `reason` tells people who ordered it.
  std::function<void(const std::string& reason)> stop;
  /// Orders a change of shape. `answer` is called once, from any thread.
  std::function<void(const actors::ScaleRequest& request,
                     std::function<void(const actors::ScaleAnswer&)> answer)>
      scale;
  /// Orders a checkpoint of the step in progress. `answer` is called once, from any thread.
  std::function<void(std::function<void(const actors::SaveAnswer&)> answer)> save;
  /// The source of the run's events; outlives those who use the port. Null: it publishes none.
  actors::Hub* hub = nullptr;
};

/// The fields of a control request that the scale request sets, out of {"pp": 3, "dp": 1, "ep": 1,
/// "layout": "3,2,1", "schedule": "gpipe", "without_hosts": ["h1"], "hosts": 2}.
TROUPE_JSON_FIELDS(actors::ScaleRequest, x.pp, x.dp, x.tp, x.ep, x.stage, x.layout, x.schedule,
                   unless_empty(x.without_hosts), x.hosts)
/// The scale request in the fields of a control request. Throws Error{usage} naming a field that is
/// not known, or whose value is empty or not valid.
actors::ScaleRequest parse_scale(const nlohmann::json& fields);

}  // namespace troupe::launch

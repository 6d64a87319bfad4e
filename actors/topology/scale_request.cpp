#include <string>

#include "actors/topology/scale.h"

// A request to change the cluster, as text and in parts.

namespace troupe::actors {

std::string to_string(const ScaleRequest& request) {
  std::string out;
  const auto add = [&out](const std::string& option, const std::string& value) {
    out += (out.empty() ? "--" : " --") + option + " " + value;
  };
  if (request.stage) add("stage", std::to_string(*request.stage));
  if (request.pp) add("pp", std::to_string(*request.pp));
  if (request.dp) add("dp", std::to_string(*request.dp));
  if (request.tp) add("tp", std::to_string(*request.tp));
  if (request.ep) add("ep", std::to_string(*request.ep));
  if (request.layout) add("layout", request.layout->empty() ? "even" : *request.layout);
  if (request.schedule) add("schedule", *request.schedule);
  for (const std::string& host : request.without_hosts) add("without-host", host);
  if (request.hosts) add("hosts", std::to_string(*request.hosts));
  return out;
}

ScaleRequest shape_of(ScaleRequest request) {
  request.without_hosts.clear();
  request.hosts.reset();
  return request;
}

}  // namespace troupe::actors

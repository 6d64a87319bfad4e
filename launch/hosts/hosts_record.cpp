#include "launch/hosts/hosts_record.h"

#include <nlohmann/json.hpp>

#include "actors/security/credentials.h"
#include "tensor/errors/error.h"

namespace troupe::actors {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentRecord, host, address, port)

}  // namespace troupe::actors

namespace troupe::launch {
namespace {

using nlohmann::json;
using Start = HostsPlan::Start;

/// A host as its name and slots; what else is known of it, its agent tells again.
json to_json(const std::vector<actors::Host>& hosts) {
  json all = json::array();
  for (const actors::Host& host : hosts)
    all.push_back({{"host", host.name}, {"slots", host.slots}});
  return all;
}

}  // namespace

NLOHMANN_JSON_SERIALIZE_ENUM(HostsPlan::Start, {{Start::none, "none"},
                                                {Start::ssh, "ssh"},
                                                {Start::srun, "srun"},
                                                {Start::themselves, "themselves"}})

std::string to_text(const HostsRecord& record) {
  const json text{{"start", record.start},
                  {"count", record.count},
                  {"named", to_json(record.named)},
                  {"secret", record.secret},
                  {"agents", record.agents}};
  return text.dump(-1, ' ', true) + "\n";
}

std::optional<HostsRecord> read_hosts_record(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  const std::string text = actors::read_private_file(file.string());
  try {
    const json read = json::parse(text);
    HostsRecord record{.start = read.at("start").get<Start>(),
                       .count = read.at("count"),
                       .named = {},
                       .secret = read.at("secret"),
                       .agents = read.at("agents")};
    for (const json& host : read.at("named"))
      record.named.push_back({.name = host.at("host"), .slots = host.at("slots")});
    return record;
  } catch (const json::exception&) {
    throw Error(ErrorKind::data,
                file.string() +
                    " does not say where the hosts of the run are; without it the run "
                    "goes on from its checkpoint");
  }
}

}  // namespace troupe::launch

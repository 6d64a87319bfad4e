#include "launch/hosts/invitation.h"

#include <nlohmann/json.hpp>

#include "tensor/errors/error.h"

namespace troupe::launch {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Invitation, host, address, port, credentials, interface, ports,
                                   environment)

std::string to_line(const Invitation& invitation) {
  return nlohmann::json(invitation).dump(-1, ' ', true) + "\n";
}

Invitation parse_invitation(const std::string& line) try {
  return nlohmann::json::parse(line).get<Invitation>();
} catch (const nlohmann::json::exception&) {
  throw Error(ErrorKind::usage,
              "standard input holds no invitation to a run: 'troupe join -' is started by a "
              "launcher; by hand, give the run's directory, or --rendezvous and --token-file");
}

}  // namespace troupe::launch

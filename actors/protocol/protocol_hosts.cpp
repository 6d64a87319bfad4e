#include "actors/protocol/protocol.h"

// Hosts that join, are lost or are to be left.

namespace troupe::actors {

void DirectorProtocol::handle(const HostJoined& event) {
  hosts_.join(event.host);
  emit(ReportHost{.host = event.host.name, .state = HostState::spare, .cause = ""});
}

void DirectorProtocol::handle(const HostLost& event) {
  if (hosts_.set(event.name, HostState::lost))
    emit(ReportHost{.host = event.name, .state = HostState::lost, .cause = event.cause});
}

void DirectorProtocol::handle(const HostDraining& event) {
  if (hosts_.set(event.name, HostState::draining))
    emit(ReportHost{.host = event.name, .state = HostState::draining, .cause = event.cause});
}

void DirectorProtocol::handle(const GrowTimerRang&) {}

}  // namespace troupe::actors

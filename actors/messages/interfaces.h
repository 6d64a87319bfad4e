#pragma once

#include <caf/behavior.hpp>
#include <caf/message_handler.hpp>
#include <caf/typed_actor.hpp>
#include <utility>

#include "actors/messages/message_inspection.h"

// What the actors of a run accept from other processes. Sending anything else to a handle of such a
// type does not compile, and neither does a behavior that lacks a handler for one of its messages.

namespace troupe::actors {

/// A stage, in its worker's process: accepts orders.
using StageRef =
    caf::typed_actor<caf::reacts_to<Halt>, caf::reacts_to<Peers>, caf::reacts_to<Moves>,
                     caf::reacts_to<BeginConfiguration>, caf::reacts_to<WarmUp>,
                     caf::reacts_to<RunStep>, caf::reacts_to<Commit>, caf::reacts_to<Save>,
                     caf::reacts_to<Evaluate>, caf::reacts_to<Finish>, caf::reacts_to<NewDirector>>;

/// A replica's actor, in the launcher: accepts what its stages answer within a configuration.
using ReplicaRef =
    caf::typed_actor<caf::reacts_to<Ready>, caf::reacts_to<Copied>, caf::reacts_to<Prepared>,
                     caf::reacts_to<Saved>, caf::reacts_to<Evaluated>,
                     caf::reacts_to<TracedActions>, caf::reacts_to<Tapped>,
                     caf::reacts_to<ParameterHistograms>, caf::reacts_to<Heartbeat>>;

/// The director, in the launcher: accepts what a worker sends outside a configuration, or about
/// itself.
using DirectorRef =
    caf::typed_actor<caf::replies_to<Hello>::with<Welcome>, caf::reacts_to<Join>,
                     caf::reacts_to<Rejoin>, caf::reacts_to<Heartbeat>, caf::reacts_to<Halted>,
                     caf::reacts_to<Warm>, caf::reacts_to<Failed>>;

/// A host's agent: accepts orders of the director's process, passes the Hello of its workers on,
/// and answers a launcher that takes over.
using AgentRef = caf::typed_actor<
    caf::replies_to<Hello>::with<Welcome>, caf::reacts_to<StartWorker>, caf::reacts_to<StopWorkers>,
    caf::reacts_to<DirectorBeat>, caf::reacts_to<FilesWanted>, caf::reacts_to<Dismissed>,
    caf::reacts_to<FilesAway>, caf::replies_to<FilesNeeded>::with<FilesHere>,
    caf::reacts_to<SurveyBegun>, caf::reacts_to<ProbeLinks>, caf::reacts_to<SurveyEnded>,
    caf::replies_to<AskAgent>::with<AgentState>, caf::replies_to<TakeOver>::with<TakenOver>,
    caf::reacts_to<RunBegins>, caf::reacts_to<Resident>>;

/// The director's side of all agents, in the launcher.
using HostsRef = caf::typed_actor<caf::replies_to<HostHello>::with<HostWelcome>,
                                  caf::replies_to<Hello>::with<Welcome>, caf::reacts_to<AgentBeat>,
                                  caf::reacts_to<WorkerEnded>, caf::reacts_to<HostLeaves>,
                                  caf::reacts_to<FilesSeen>, caf::reacts_to<FilesBrought>,
                                  caf::reacts_to<HostSurveyed>, caf::reacts_to<LinksProbed>>;

/// The behavior of an actor that others reach as a Ref: `accepted` has the handlers of its
/// messages, `own` those of what the actor sends to itself and of what its process sends to it.
template <typename Ref>
caf::behavior behavior_of(typename Ref::behavior_type accepted, const caf::message_handler& own) {
  return own.or_else(std::move(accepted.unbox()));
}

}  // namespace troupe::actors

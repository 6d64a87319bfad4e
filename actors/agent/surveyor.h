#pragma once

#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>

#include "actors/messages/control_plane.h"
#include "actors/messages/own_threads.h"
#include "actors/messages/survey_messages.h"

namespace troupe::actors {

/// What a surveyor tells the actor that it works for.
struct SurveyorTold {
  std::variant<HostSurveyed, LinksProbed> what;
};

/// Nothing more is wanted of the worker of a survey.
struct SurveyOver {};

/// Does this host's part in surveys for an actor, which gets the answers as SurveyorTold. The work
/// is done by an actor with a thread of its own, which there is during a survey alone. Orders take
/// no time; those of another survey than the one that began last are ignored.
class Surveyor {
 public:
  /// `address` is this host's own towards the others.
  Surveyor(ControlActor& owner, std::string address, OwnThreads& own_threads)
      : owner_(owner), address_(std::move(address)), own_threads_(own_threads) {}
  Surveyor(const Surveyor&) = delete;
  ~Surveyor() { stop(); }

  void obey(const SurveyBegun& order);
  void obey(const ProbeLinks& order);
  void obey(const SurveyEnded& order);
  /// Ends what is under way.
  void stop();

 private:
  ControlActor& owner_;
  const std::string address_;
  OwnThreads& own_threads_;
  std::uint64_t survey_ = 0;
  caf::actor worker_;  ///< null outside a survey
  std::stop_source stop_;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::SurveyOver)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::SurveyorTold)

#pragma once

#include <caf/allowed_unsafe_message_type.hpp>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "actors/hosts/survey.h"
#include "actors/messages/secret.h"

namespace troupe::actors {

/// A survey that somebody in the launcher wants. `done` is called once, by the actor for hosts.
struct SurveyWanted {
  SurveyPlan plan;
  std::function<void(const SurveyResult&)> done;
};

/// The surveys of a run, one at a time, in the order in which they were asked for.
class SurveyDesk {
 public:
  explicit SurveyDesk(Survey::Send send) : send_(std::move(send)) {}

  void ask(SurveyWanted wanted);
  template <typename Answer>
  void take(const std::string& host, const Answer& answer) {
    if (survey_) survey_->take(host, answer);
    go_on();
  }
  void lose(const std::string& host);
  void pass(double seconds);

 private:
  void go_on();

  const Survey::Send send_;
  std::deque<SurveyWanted> waiting_;  ///< the first is under way
  std::optional<Survey> survey_;
  std::uint64_t number_ = random_u64();  // an agent may have seen surveys of an earlier launcher
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::SurveyWanted)

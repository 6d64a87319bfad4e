#include "actors/hosts/survey_desk.h"

#include <utility>

#include "actors/messages/secret.h"

namespace troupe::actors {

void SurveyDesk::ask(SurveyWanted wanted) {
  waiting_.push_back(std::move(wanted));
  go_on();
}

void SurveyDesk::lose(const std::string& host) {
  if (survey_) survey_->lose(host);
  go_on();
}

void SurveyDesk::pass(double seconds) {
  if (survey_) survey_->pass(seconds);
  go_on();
}

/// Begins the next survey if none is under way, and tells of one that is over.
void SurveyDesk::go_on() {
  while (true) {
    if (!survey_ && !waiting_.empty())
      survey_.emplace(++number_, waiting_.front().plan, random_token(), send_);
    if (!survey_ || !survey_->over()) return;
    const SurveyResult result = survey_->result();
    const auto done = std::move(waiting_.front().done);
    waiting_.pop_front();
    survey_.reset();
    done(result);  // which may ask for another one
  }
}

}  // namespace troupe::actors

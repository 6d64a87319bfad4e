#include <algorithm>
#include <array>
#include <utility>

#include "actors/protocol/protocol.h"

// The end of a run: why it ends, with which outcome, and what the end waits for.

namespace troupe::actors {
namespace {

/// The time that workers have to end by themselves before they are killed, in seconds.
constexpr double kFinishDeadline = 5;
/// The waits before the last step is saved again, in seconds: a file system that fails for some
/// seconds must not cost what was trained.
constexpr std::array kSaveAgainDelays{1, 2, 4};

int delay_after(int num_failures) {
  return kSaveAgainDelays.at(static_cast<std::size_t>(num_failures - 1));
}

}  // namespace

void DirectorProtocol::handle(const DirectorFailed& event) {
  if (phase_ != Phase::ending) fail(event.kind, event.message);
}

void DirectorProtocol::handle(const StopOrdered& event) {
  stop_in_order(event.reason, 0);
}

/// Ends the run once the step in progress is saved.
void DirectorProtocol::stop_in_order(const std::string& reason, int exit_code) {
  if (end_.stop_reason() || phase_ == Phase::ending) return;
  end_.stop(reason, exit_code);
  // Before the first configuration nothing was done, and the same command may be given again; a
  // step in progress is finished first.
  if (kept_.number == 0 && !takeover_.adoption)
    return finish(
        {.exit_code = static_cast<int>(ErrorKind::retry), .step = committed_, .reason = reason});
  // If the committed step is being saved, it becomes the last one: the next step would have to be
  // saved too. Unless ranks may have updated what they would save again if that fails.
  if (phase_ == Phase::running && !ahead_.is_ordered() && writing() == committed_ && is_over())
    phase_ = Phase::saving;
}

void DirectorProtocol::handle(const StopNowOrdered& event) {
  const bool was_ending = phase_ == Phase::ending;
  if (!was_ending)
    finish({.exit_code = static_cast<int>(ErrorKind::retry),
            .step = committed_,
            .reason = event.reason});
  if (was_ending || checkpoint_.publishing()) emit(AbandonCheckpoint{});
  if (phase_ != Phase::ended) emit(KillWorkers{});
}

/// Ends the run, once the workers that are left, and new ones, have saved what memory holds of its
/// last step. A second failure ends it at once.
void DirectorProtocol::fail(ErrorKind kind, const std::string& message) {
  // A user's mistake that only a worker could see keeps its code; every other failure is a failed
  // run.
  const auto code = static_cast<int>(is_users_mistake(kind) ? kind : ErrorKind::internal);
  if (end_.failure()) return give_up(message);
  if (!has_unsaved_state())
    return finish({.exit_code = code, .step = committed_, .reason = message});
  end_.fail(message, code);
  failures_.forget_attempts();
  if (scale_) give_up_scale(ErrorKind::unavailable, "the run is ending: " + message);
  if (!shrink_to_survivors()) return give_up("no smaller cluster can go on");
  gather(message);
}

/// Ends a failed run whose last step cannot be saved.
void DirectorProtocol::give_up(const std::string& why) {
  finish({.exit_code = end_.failure()->exit_code,
          .step = committed_,
          .reason = end_.failure()->why + "; step " + std::to_string(committed_) +
                    " could not be saved: " + why});
}

/// Whether memory may hold a committed step that no checkpoint has, or is about to have.
bool DirectorProtocol::has_unsaved_state() const {
  const bool is_published = checkpoint_.publishing() && writing() == committed_;
  return kept_.number > 0 && committed_ > first_step_ && !is_published && saved() < committed_;
}

/// Whether the last step, with which the run ends, could not be saved and is to be tried again.
bool DirectorProtocol::saves_again() const {
  return is_over() && checkpoint_.failed(committed_) && !checkpoint_.failed_for_good() &&
         checkpoint_.num_failures() <= std::ssize(kSaveAgainDelays);
}

/// Why a step could not be saved, and when that is tried again, if it is.
std::string DirectorProtocol::told_with_retry(const std::string& error) const {
  if (!saves_again()) return error;
  return error + "; tried again in " + std::to_string(delay_after(checkpoint_.num_failures())) +
         " s";
}

/// All workers stay, with their state; the timer, or the configuration after the loss of one, goes
/// on.
void DirectorProtocol::wait_to_save_again() {
  phase_ = Phase::saving;
  start_timer(delay_after(checkpoint_.num_failures()));
}

/// Ends the run after its last step, which is saved first if it is not saved yet.
void DirectorProtocol::finish_in_order() {
  const bool is_new = !end_.refused_step() || writing() || committed_ > first_step_;
  if (is_new && (!checkpoint_.settled(committed_) || saves_again())) return save();
  if (const auto& failure = end_.failure()) {
    if (checkpoint_.failed(committed_)) return give_up(checkpoint_.error());
    return finish({.exit_code = failure->exit_code, .step = committed_, .reason = failure->why});
  }
  const std::string reason = end_.stop_reason().value_or("finished");
  if (checkpoint_.failed(committed_))
    return finish(
        {.exit_code = static_cast<int>(ErrorKind::internal),
         .step = committed_,
         .reason = reason + ", but the last step could not be saved: " + checkpoint_.error()});
  finish({.exit_code = end_.stop_code(), .step = committed_, .reason = reason});
}

void DirectorProtocol::finish(Outcome outcome) {
  if (end_.refused_step()) outcome = outcome_of_refused_step(outcome.reason);
  const std::string ended =
      "the run ended at step " + std::to_string(committed_) + ": " + outcome.reason;
  if (scale_ && scale_->reason != ScaleReason::ordered) scale_.reset();
  answer_scale(ErrorKind::unavailable, ended);
  answer_save(ErrorKind::unavailable, ended);
  phase_ = Phase::ending;
  end_.decide(outcome);
  if (roster_.empty()) return end_if_alone();
  emit(Finish{.reason = outcome.reason});
  start_timer(kFinishDeadline);
}

/// The outcome of a run with a refused step, which is the first cause of the end, whatever came
/// after it.
Outcome DirectorProtocol::outcome_of_refused_step(const std::string& end) const {
  const std::int64_t last = std::max(reached_, first_step_);
  std::string state;
  if (saved() >= last)
    state = "the state of step " + std::to_string(saved()) + " is in " +
            checkpoint_path(spec_, saved());
  else if (last == first_step_)
    state = "no step was committed before it, so that there is nothing to save";
  else
    state = "the state of step " + std::to_string(last) +
            " could not be saved: " + (checkpoint_.failed(last) ? checkpoint_.error() : end);
  return {.exit_code = static_cast<int>(ErrorKind::internal),
          .step = committed_,
          .reason = *end_.refused_step() + "; " + state +
                    " (a lower lr, a longer warm-up or a smaller clip may help)"};
}

/// Adds to the outcome that the checkpoint for which the end waits could not be written. An end
/// that has left it unfinished says so by itself.
void DirectorProtocol::tell_if_unsaved(const Published& last) {
  const bool is_left = end_.failure() || end_.refused_step() ||
                       end_.outcome()->exit_code == static_cast<int>(ErrorKind::retry);
  if (last.error.empty() || last.step != committed_ || is_left) return;
  end_.add("; step " + std::to_string(last.step) + " could not be saved: " + last.error);
}

/// Ends the run if all workers have ended and no checkpoint is being published.
void DirectorProtocol::end_if_alone() {
  if (!roster_.empty() || checkpoint_.publishing()) return;
  phase_ = Phase::ended;
  emit(End{.outcome = *end_.outcome()});
}

}  // namespace troupe::actors

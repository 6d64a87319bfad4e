#include <fmt/format.h>

#include "actors/director/director.h"
#include "actors/messages/message_checks.h"
#include "actors/messages/secret.h"

// How the director takes over what an earlier one has left.

namespace troupe::actors {

void Director::rejoin(const Rejoin& message) {
  if (!equal_secrets(message.token, context_.token) || !current_sender()) return;
  const std::uint64_t incarnation = message.member.incarnation;
  std::string why = fault_in(message);
  if (why.empty() && !protocol_.adopts(incarnation)) why = "a worker that is not expected";
  if (!why.empty())
    return perform(ReportRefused{.sender = "an unknown process", .why = "Rejoin of " + why});
  workers_[incarnation] = caf::actor_cast<StageRef>(current_sender());
  liveness_.watch(incarnation);
  for (const CommittedStep& commit : message.commits) told_commits_[commit.step] = commit;
  handle(MemberAdopted{
      .member = message.member, .configuration = message.configuration, .held = message.held});
}

/// Writes down the steps that the earlier director has committed and did not get to. What was
/// measured of them is lost.
void Director::perform(const ReportTakeOver& effect) {
  announce(fmt::format("goes on after step {}, from {}; {} worker{} of the earlier launcher",
                       effect.step, origin_of(effect.step, effect.from_memory), workers_.size(),
                       workers_.size() == 1 ? "" : "s"));
  for (; reported_ < effect.committed; ++reported_) {
    const auto told = told_commits_.find(reported_ + 1);
    if (told == told_commits_.end()) {
      announce(fmt::format("no worker knows the loss of step {}, which has no line in its metrics",
                           reported_ + 1));
      continue;
    }
    const StepReport step = basic_report(told->second);
    context_.observer.on_step(step);
    tell(StepCommitted{.report = step}, -1, step.step);
  }
  told_commits_.clear();
}

}  // namespace troupe::actors

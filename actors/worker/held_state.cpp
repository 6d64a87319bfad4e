#include "actors/worker/held_state.h"

#include <utility>

namespace troupe::actors {

void HeldState::enters(const ConfigurationHeader& header, int rank) {
  entering_ = {.header = header, .rank = rank, .reached = false};
}

void HeldState::ready(std::uint32_t configuration) {
  if (!entering_ || entering_->header.number != configuration) return;
  before_ = std::exchange(now_, std::exchange(entering_, std::nullopt));
}

void HeldState::stepped(std::uint32_t configuration) {
  if (!now_ || now_->header.number != configuration) return;
  now_->reached = true;
  before_.reset();
}

void HeldState::halted(std::uint32_t kept) {
  entering_.reset();
  if (before_ && before_->header.number == kept) now_ = before_;
  before_.reset();
  if (now_ && now_->header.number != kept) now_.reset();
  if (now_) now_->reached = true;
}

void HeldState::committed(const CommittedStep& commit) {
  // After a way back a step is committed again, with the same numbers.
  while (!commits_.empty() && commits_.back().step >= commit.step) commits_.pop_back();
  commits_.push_back(commit);
  if (commits_.size() > kMostCommits) commits_.pop_front();
}

std::vector<HeldConfiguration> HeldState::configurations() const {
  std::vector<HeldConfiguration> all;
  for (const auto& held : {now_, before_})
    if (held) all.push_back(*held);
  return all;
}

}  // namespace troupe::actors

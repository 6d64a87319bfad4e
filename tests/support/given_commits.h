#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "actors/worker/step_orders.h"

namespace troupe::test {

/// The director's side of a rank's steps, with the commits that a test gives it ahead.
class GivenCommits final : public actors::StepOrders {
 public:
  void give(const actors::Commit& commit) { commits_.push_back(commit); }
  /// The steps whose copies the rank has told of.
  const std::vector<std::int64_t>& copied() const { return copied_; }

  std::optional<actors::Commit> await_commit() override {
    if (commits_.empty()) return std::nullopt;
    const actors::Commit first = std::move(commits_.front());
    commits_.pop_front();
    return first;
  }
  void tell(const actors::Copied& answer) override { copied_.push_back(answer.step); }

 private:
  std::deque<actors::Commit> commits_;
  std::vector<std::int64_t> copied_;
};

}  // namespace troupe::test

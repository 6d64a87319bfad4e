#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "actors/messages/takeover_messages.h"

namespace troupe::actors {

/// What a stage can tell another director of its worker: the configurations whose state that has,
/// by the orders and answers that have passed, and the last commits. A pure value.
class HeldState {
 public:
  /// How many commits are kept: so many steps may be missing in the launcher's files when it is
  /// lost.
  static constexpr std::size_t kMostCommits = 64;

  /// The worker was ordered to enter a configuration.
  void enters(const ConfigurationHeader& header, int rank);
  /// It is ready in the configuration that it enters, with all its state.
  void ready(std::uint32_t configuration);
  /// Something was ordered within the configuration: all ranks have reached it.
  void stepped(std::uint32_t configuration);
  /// It was ordered to halt: of its configurations the one of this number alone counts.
  void halted(std::uint32_t kept);
  void committed(const CommittedStep& commit);

  /// The newest first.
  std::vector<HeldConfiguration> configurations() const;
  std::vector<CommittedStep> commits() const { return {commits_.begin(), commits_.end()}; }

 private:
  std::optional<HeldConfiguration> entering_, now_, before_;
  std::deque<CommittedStep> commits_;
};

}  // namespace troupe::actors

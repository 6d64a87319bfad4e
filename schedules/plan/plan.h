#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schedules/plan/action.h"

namespace troupe::schedules {

/// What a plan is for. In `training` each F needs its B, or its I and W; otherwise only F is
/// allowed.
enum class Purpose { training, forward_only };

/// What every pipeline rank does in one step, in order. A value.
struct Plan {
  std::string kind;  ///< name of the schedule it came from, "csv" for a user's own
  int num_microbatches = 0;
  std::vector<int> rank_of_chunk;            ///< pipeline rank of each chunk
  std::vector<std::vector<Action>> actions;  ///< [pipeline rank][order]
  /// Copies of the parameters, 1 or 2. With 2, the upper half of the chunks holds the layers of the
  /// lower half again, and the upper half of the microbatches runs through it.
  int num_copies = 1;

  int num_ranks() const { return static_cast<int>(actions.size()); }
  int num_chunks() const { return static_cast<int>(rank_of_chunk.size()); }
  /// Whether a chunk is the first one that its microbatches run through.
  bool is_first(int chunk) const { return chunk % chunks_per_copy() == 0; }
  bool is_last(int chunk) const { return (chunk + 1) % chunks_per_copy() == 0; }
  /// The microbatches that run through a chunk: [first, first + microbatches_per_copy()).
  int first_microbatch(int chunk) const {
    return chunk / chunks_per_copy() * microbatches_per_copy();
  }
  int chunks_per_copy() const { return num_chunks() / num_copies; }
  int microbatches_per_copy() const { return num_microbatches / num_copies; }
  bool operator==(const Plan&) const = default;
};

/// Purpose::forward_only if no action is a backward, else training.
Purpose purpose_of(const Plan& plan);

/// Writes a plan with a line per rank and a cell per action or pair, as PyTorch's pipelining writes
/// it: "0F0,(0F1;0B0),0B1".
std::string to_csv(const Plan& plan);

/// Why a text is no plan. Line and column count from 1.
struct PlanError {
  int line = 0;
  int column = 0;
  std::string message;
};
/// Reads to_csv's form; spaces, empty cells (idle slots), PyTorch's "OVERLAP_F_B" after a pair and
/// empty last lines are skipped. Infers rank_of_chunk, num_microbatches and num_copies. Every chunk
/// below the highest must appear, on one rank alone; nothing else is checked (see validate()).
/// Never throws, whatever the text.
std::variant<Plan, PlanError> parse_csv(std::string_view text);

/// Splits B into I and a later W, and moves a W back, wherever a chunk's weight-gradients would not
/// come in ascending microbatch order, so that gradients accumulate in one order under every
/// schedule. Plans that are in order come back unchanged.
Plan in_order(Plan plan);

/// FNV-1a over the plan's CSV text, by which ranks check that they run the same plan. Implemented
/// here because schedules use the standard library alone.
std::uint64_t digest(const Plan& plan);

}  // namespace troupe::schedules

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schedules/plan.h"

namespace troupe::schedules {

/// Durations of a whole stage, all in the same unit. With v chunks on a rank, an action of one
/// chunk costs 1/v of them. If there are two copies of the parameters, they are the durations of
/// one copy.
struct StageCosts {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  std::optional<double> backward = {};  ///< if not set: I + W
  std::optional<double> pair = {};      ///< of an overlapped F and B; if not set: F + B
};

/// Whether a rank computes while its results travel.
enum class Sends { overlapped, blocking };
/// Whether the optimizer waits for all ranks.
enum class Barrier { global, none };

struct Costs {
  /// Costs by rank; one entry serves all ranks.
  std::vector<StageCosts> stages = std::vector<StageCosts>(1);
  /// Costs of each chunk's actions, used instead of `stages` if given.
  std::vector<StageCosts> chunks = {};
  double hop = 0;   ///< latency of an edge between two ranks; a rank's edge to itself has none
  double link = 0;  ///< how long a message keeps the link of two ranks busy: its bytes / bandwidth
  double optimizer = 0;  ///< duration of the optimizer, after the step's last action
  Sends sends = Sends::overlapped;
  Barrier barrier = Barrier::global;
};

/// The durations of each chunk's actions.
std::vector<StageCosts> chunk_costs(const Plan& plan, const Costs& costs);
/// The duration of an action that runs alone.
double duration(const StageCosts& chunk, Op op);
/// The duration of an overlapped pair: that of its forward's chunk if it is given, less what a
/// backward without its weight-gradient saves.
double pair_duration(const StageCosts& forward, const StageCosts& backward, Op op);

/// Costs in whole numbers of a small unit, so that sums and comparisons of times are exact.
struct WholeCosts {
  Costs costs;
  double units = 1;  ///< number of small units in one unit of the text
};
/// Reads "F=18.5,I=18,W=9.3,hop=0.6": F, I, W, B, pair, hop, link and optimizer, each once, in any
/// order; F, I and W must be given. F, I, W, B and pair may differ by stage: "F=1:2:2:1". With
/// `chunks` chunks per rank, costs of up to 9 decimals are whole numbers in the result. Returns the
/// reason if the text is not of this form. Never throws.
std::variant<WholeCosts, std::string> parse_costs(std::string_view text, int chunks);

}  // namespace troupe::schedules

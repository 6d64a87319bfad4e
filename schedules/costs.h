#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schedules/plan.h"

namespace troupe::schedules {

/// Durations in any one unit, of a whole stage: with v chunks on a rank, an action of one chunk
/// costs 1/v of this; where there are two copies of the parameters, of one copy.
struct StageCosts {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  std::optional<double> backward = {};  ///< default: I + W
  std::optional<double> pair = {};      ///< of an overlapped F and B; default: F + B
};

/// Whether a rank computes while its results travel.
enum class Sends { overlapped, blocking };
/// Whether the optimizer waits for all ranks.
enum class Barrier { global, none };

struct Costs {
  /// By rank; one entry serves all ranks.
  std::vector<StageCosts> stages = std::vector<StageCosts>(1);
  std::vector<StageCosts> chunks = {};  ///< by chunk, of its actions, instead of stages if given
  double hop = 0;   ///< latency of an edge between two ranks; a rank's edge to itself has none
  double link = 0;  ///< a message's bytes / bandwidth: how long it keeps a link of two ranks busy
  double optimizer = 0;  ///< after the step's last action
  Sends sends = Sends::overlapped;
  Barrier barrier = Barrier::global;
};

/// The durations of each chunk's actions.
std::vector<StageCosts> chunk_costs(const Plan& plan, const Costs& costs);
/// The duration of an action that runs alone.
double duration(const StageCosts& chunk, Op op);
/// The duration of an overlapped pair: that of its forward's chunk where it is given, less what a
/// backward without its weight-gradient saves.
double pair_duration(const StageCosts& forward, const StageCosts& backward, Op op);

/// Costs as whole numbers of a unit, so that sums and comparisons of times are exact.
struct WholeCosts {
  Costs costs;
  double units = 1;  ///< of one unit of the text
};
/// Reads "F=18.5,I=18,W=9.3,hop=0.6": F, I, W, B, pair, hop, link and optimizer, each once, in any
/// order; F, I and W must be given. F, I, W, B and pair may differ by stage: "F=1:2:2:1". Costs
/// of `chunks` chunks a rank with up to 9 decimals are whole in the result. Returns why not where
/// the text is something else. Never throws.
std::variant<WholeCosts, std::string> parse_costs(std::string_view text, int chunks);

}  // namespace troupe::schedules

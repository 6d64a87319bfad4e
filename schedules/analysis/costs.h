#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schedules/plan/plan.h"

namespace troupe::schedules {

/// How long actions wait for collectives of the shards if they run alone: what their own products
/// do not hide.
struct CollectiveCosts {
  double forward = 0;
  double input_gradient = 0;
  double weight_gradient = 0;
  std::optional<double> backward = {};  ///< if not set: I + W
  bool operator==(const CollectiveCosts&) const = default;
};

/// How long the weights that replicas divide are gathered for the actions that read them, if each
/// gather runs alone: all that a forward, and all that a B or I reads.
struct GatherCosts {
  double forward = 0;
  double backward = 0;
  bool operator==(const GatherCosts&) const = default;
};

/// How divided weights are gathered: each chunk's in as many units, alike, one after the other.
struct Gathering {
  int units = 1;  ///< of a chunk
  int ahead = 1;  ///< units that are gathered ahead of the one that is computed with
  /// Whether a unit is given up after the forward that reads it, and gathered again for the
  /// backward; if not, each is gathered once.
  bool reshards = true;
  bool operator==(const Gathering&) const = default;
};

/// Durations of a whole stage, all in the same unit. With v chunks on a rank, an action of one
/// chunk costs 1/v of them. If there are two copies of the parameters, they are the durations of
/// one copy.
struct StageCosts {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  std::optional<double> backward = {};  ///< if not set: I + W
  /// An overlapped F and B; if not set: F + B, and the collectives that they do not hide.
  std::optional<double> pair = {};
  CollectiveCosts collectives = {};  ///< in addition to the durations above
  GatherCosts gathers = {};          ///< beside the durations above, as far as they can

  /// Calls use(name, cost) for every one, each a double or an optional one, with its name in
  /// parse_costs().
  template <typename Use>
  void for_each(const Use& use) {
    use("F", forward);
    use("I", input_gradient);
    use("W", weight_gradient);
    use("B", backward);
    use("cF", collectives.forward);
    use("cI", collectives.input_gradient);
    use("cW", collectives.weight_gradient);
    use("cB", collectives.backward);
    use("gF", gathers.forward);
    use("gB", gathers.backward);
    use("pair", pair);
  }
};

/// Whether a rank computes while its results travel.
enum class Sends { overlapped, blocking };
/// Whom the optimizer waits for: all ranks, or nobody. `ahead`: for nobody, and the rank then runs
/// what it may of the next step (actions_ahead()) before it waits for all ranks.
enum class Barrier { global, none, ahead };
/// When the two parts of a pair start: when the inputs of both are there, or, as the runtime does,
/// each when its own is there. They then count one after the other, and the second one without the
/// collectives that the pair hides.
enum class Pairs { together, when_ready };

struct Costs {
  /// Costs by rank; one entry serves all ranks.
  std::vector<StageCosts> stages = std::vector<StageCosts>(1);
  /// Costs of each chunk's actions, used instead of `stages` if given.
  std::vector<StageCosts> chunks = {};
  double hop = 0;   ///< latency of an edge between two ranks; a rank's edge to itself has none
  double link = 0;  ///< how long a message keeps the link of two ranks busy: its bytes / bandwidth
  double optimizer = 0;  ///< duration of the optimizer, after the step's last action
  Gathering gathering = {};
  Sends sends = Sends::overlapped;
  Barrier barrier = Barrier::global;
  Pairs pairs = Pairs::together;
};

/// The durations of each chunk's actions.
std::vector<StageCosts> chunk_costs(const Plan& plan, const Costs& costs);
/// The computation of an action.
double computation(const StageCosts& chunk, Op op);
/// How long an action that runs alone waits for collectives.
double collective(const StageCosts& chunk, Op op);
/// The duration of an action that runs alone: computation and collectives.
double duration(const StageCosts& chunk, Op op);
/// The duration of an overlapped pair: that of its forward's chunk if it is given, less what a
/// backward without its weight-gradient saves. Else the longest of three: both computations, which
/// share a processor, and each action alone, whose nodes and collectives follow each other.
double pair_duration(const StageCosts& forward, const StageCosts& backward, Op op);

/// Costs in whole numbers of a small unit, so that sums and comparisons of times are exact.
struct WholeCosts {
  Costs costs;
  double units = 1;  ///< number of small units in one unit of the text
};
/// Reads "F=18.5,I=18,W=9.3,hop=0.6": F, I, W, B, pair, hop, link and optimizer, each once, in any
/// order; F, I and W must be given. cF, cI, cW and cB are what an action waits for collectives; gF
/// and gB are GatherCosts, and units and ahead those of Gathering. All of an action or a pair may
/// differ by stage: "F=1:2:2:1". With `chunks` chunks per rank, costs of up to 9 decimals are whole
/// numbers in the result, also those of a chunk's units. Returns the reason if the text is not of
/// this form. Never throws.
std::variant<WholeCosts, std::string> parse_costs(std::string_view text, int chunks);

}  // namespace troupe::schedules

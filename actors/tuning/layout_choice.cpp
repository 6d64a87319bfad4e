#include "actors/tuning/layout_choice.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace troupe::actors {
namespace {

/// The number of simulated actions, less than a second's, after which the search ends with the best
/// split so far.
constexpr std::size_t kMaxActions = 4'000'000;
/// The relative difference below which two times count as equal, because rounding in sums causes
/// such differences.
constexpr double kEqual = 1e-9;

class Search {
 public:
  Search(const StepSimulation& step, const ClusterShape& current,
         const std::function<bool(const ClusterShape&)>& fits)
      : step_(step), current_(current), fits_(fits), best_(layers_of(current.layout)) {
    for (const auto& row : step.plan().actions) actions_ += row.size();
    best_s_ = seconds(best_);
    for (const std::vector<int>& begin : {best_, equal_work()}) climb(begin, seconds(begin));
    // Where no move of one layer helps, one of two may.
    for_each_move(std::vector(best_),
                  [this](const std::vector<int>& moved) { climb(moved, seconds(moved)); });
  }

  Layout best() const { return layout_of(best_, step_.plan().rank_of_chunk); }
  double best_s() const { return best_s_; }

 private:
  double seconds(const std::vector<int>& layers) {
    simulated_ += actions_;
    return step_.simulated(layout_of(layers, step_.plan().rank_of_chunk));
  }

  /// A split of equal work: each layer goes to the chunk whose stage then has the least work.
  std::vector<int> equal_work() const {
    const auto& ranks = step_.plan().rank_of_chunk;
    std::vector<int> layers(best_.size(), 1);
    const int all = std::accumulate(best_.begin(), best_.end(), 0);
    std::vector<double> work(step_.times().layer.size(), 0);
    const auto each = [&](std::size_t chunk) {
      return total(step_.times().layer[static_cast<std::size_t>(ranks[chunk])]);
    };
    for (std::size_t chunk = 0; chunk < ranks.size(); ++chunk) {
      double& load = work[static_cast<std::size_t>(ranks[chunk])];
      load += each(chunk);
      if (step_.plan().is_first(static_cast<int>(chunk))) load += total(step_.times().embedding);
      if (step_.plan().is_last(static_cast<int>(chunk))) load += total(step_.times().head);
    }
    for (int left = all - static_cast<int>(layers.size()); left > 0; --left) {
      std::size_t least = 0;
      const auto with = [&](std::size_t chunk) {
        return work[static_cast<std::size_t>(ranks[chunk])] + each(chunk);
      };
      for (std::size_t chunk = 1; chunk < layers.size(); ++chunk)
        if (with(chunk) < with(least)) least = chunk;
      ++layers[least];
      for (std::size_t copy = least; copy < ranks.size(); copy += layers.size())
        work[static_cast<std::size_t>(ranks[copy])] += each(copy);
    }
    return layers;
  }

  static double total(const ActionTimes& times) {
    using schedules::Op;
    const auto of = [&](Op op) { return times.of(op) + times.collective_of(op); };
    return of(Op::F) + std::max(of(Op::B), of(Op::I) + of(Op::W));
  }

  /// Calls `visit` with each split that moves one layer to another chunk, while there is time.
  template <typename Visit>
  void for_each_move(const std::vector<int>& layers, Visit visit) const {
    for (std::size_t from = 0; from < layers.size(); ++from)
      for (std::size_t to = 0; to < layers.size(); ++to) {
        if (from == to || layers[from] <= 1 || simulated_ > kMaxActions) continue;
        std::vector<int> moved = layers;
        --moved[from];
        ++moved[to];
        visit(moved);
      }
  }

  /// Repeatedly makes the move of one layer that shortens the step most, until no move does.
  void climb(std::vector<int> layers, double s) {
    while (true) {
      keep(layers, s);
      std::vector<int> next;
      double next_s = s;
      for_each_move(layers, [&](const std::vector<int>& moved) {
        const double moved_s = seconds(moved);
        if (moved_s >= (1 - kEqual) * next_s) return;
        next = moved;
        next_s = moved_s;
      });
      if (next.empty()) return;
      layers = std::move(next);
      s = next_s;
    }
  }

  void keep(const std::vector<int>& layers, double s) {
    if (s >= (1 - kEqual) * best_s_) return;
    ClusterShape shape = current_;
    shape.layout = layout_of(layers, step_.plan().rank_of_chunk);
    if (!fits_(shape)) return;
    best_ = layers;
    best_s_ = s;
  }

  const StepSimulation& step_;
  const ClusterShape& current_;
  const std::function<bool(const ClusterShape&)>& fits_;
  std::size_t actions_ = 0, simulated_ = 0;
  std::vector<int> best_;
  double best_s_ = 0;
};

}  // namespace

LayoutChoice choose_layout(const RunSpec& spec, const ClusterShape& current,
                           const Measured& measured,
                           const std::function<bool(const ClusterShape&)>& fits) {
  const StepSimulation step(spec, current, layer_times(current.layout, measured), measured.hop_s);
  const double now_s = step.simulated(current.layout);
  const double beyond = std::max(0.0, measured.step_s - now_s);
  const Search search(step, current, fits);
  LayoutChoice choice{.now = {.shape = current, .step_s = beyond + now_s},
                      .best = {.shape = current, .step_s = beyond + search.best_s()},
                      .times = step.times()};
  choice.best.shape.layout = search.best();
  return choice;
}

}  // namespace troupe::actors

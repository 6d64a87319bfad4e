#include "actors/protocol/hosts/way_watch.h"

#include <algorithm>

namespace troupe::actors {
namespace {

/// A run that has not moved for so long stands still. Half a second of it is a heartbeat's, in
/// which a rank tells for whom it waits.
constexpr double kStandsS = 3;
/// Until it is asked again whether ranks wait, if none did.
constexpr double kLookS = 1;
/// Between two tries that find nothing.
constexpr double kRestS = 4;
/// Pairs of hosts that try their ways at a time. If more wait, the others take their turn next.
constexpr std::size_t kMostPairs = 128;

}  // namespace

void WayWatch::progressed() {
  stands_s_ = rests_s_ = 0;
  suspected_.clear();
}

std::vector<WayWatch::Pair> WayWatch::pass(double seconds,
                                           const std::function<std::set<Pair>()>& waits) {
  stands_s_ += seconds;
  rests_s_ = std::max(0.0, rests_s_ - seconds);
  if (trying_ || rests_s_ > 0 || stands_s_ < kStandsS) return {};
  const std::set<Pair> asked = suspected_.empty() ? waits() : suspected_;
  const std::vector<Pair> all(asked.begin(), asked.end());
  std::vector<Pair> now;
  for (std::size_t i = 0; i < std::min(kMostPairs, all.size()); ++i)
    now.push_back(all[turn_++ % all.size()]);
  trying_ = !now.empty();
  if (!trying_) rests_s_ = kLookS;
  return now;
}

std::optional<PartitionVerdict> WayWatch::tried(std::span<const BrokenWay> broken,
                                                const std::map<std::string, int>& ranks,
                                                const std::string& launchers) {
  trying_ = false;
  if (stands_s_ < kStandsS) return std::nullopt;  // it has moved meanwhile
  std::set<Pair> found;
  std::vector<BrokenWay> again;
  for (const BrokenWay& way : broken) {
    const Pair pair = std::minmax(way.from, way.to);
    found.insert(pair);
    if (suspected_.contains(pair)) again.push_back(way);
  }
  suspected_ = std::move(found);
  if (suspected_.empty()) rests_s_ = kRestS;
  return judge_partition(again, ranks, launchers);
}

}  // namespace troupe::actors

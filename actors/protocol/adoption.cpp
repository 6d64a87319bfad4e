#include "actors/protocol/adoption.h"

#include <algorithm>
#include <ranges>

namespace troupe::actors {
namespace {

/// Incarnations of living workers are random: none is so small.
std::uint64_t nobody(int rank) {
  return static_cast<std::uint64_t>(rank) + 1;
}

/// What workers tell of one configuration.
struct Claims {
  ConfigurationHeader header;
  std::map<int, Member> members;  // by rank
  bool reached = false;

  bool holds() const { return reached || std::ssize(members) == header.shape.num_ranks(); }
};

}  // namespace

Adoption::Adoption(const std::vector<LeftWorker>& left) {
  for (const LeftWorker& worker : left) missing_[worker.incarnation] = worker.host;
}

void Adoption::take(const MemberAdopted& told) {
  missing_.erase(told.member.incarnation);
  told_[told.member.incarnation] = told;
}

void Adoption::gone(std::uint64_t incarnation) {
  missing_.erase(incarnation);
  told_.erase(incarnation);
}

std::vector<std::uint64_t> Adoption::on_host(const std::string& host) const {
  std::vector<std::uint64_t> there;
  for (const auto& [incarnation, on] : missing_)
    if (on == host) there.push_back(incarnation);
  for (const auto& [incarnation, worker] : told_)
    if (worker.member.host == host) there.push_back(incarnation);
  return there;
}

std::vector<std::uint64_t> Adoption::missing() const {
  std::vector<std::uint64_t> all;
  for (const auto& [incarnation, host] : missing_) all.push_back(incarnation);
  return all;
}

std::uint32_t Adoption::newest() const {
  std::uint32_t newest = 0;
  for (const auto& [incarnation, worker] : told_) newest = std::max(newest, worker.configuration);
  return newest;
}

std::optional<Configuration> Adoption::kept() const {
  std::map<std::uint32_t, Claims> claims;  // by number
  for (const auto& [incarnation, worker] : told_)
    for (const HeldConfiguration& held : worker.held) {
      Claims& of = claims[held.header.number];
      of.header = held.header;
      of.members[held.rank] = worker.member;
      of.reached |= held.reached;
    }
  for (const auto& [number, of] : std::views::reverse(claims)) {
    if (!of.holds()) continue;
    Configuration kept{
        .run = of.header.run, .number = number, .shape = of.header.shape, .members = {}};
    for (int rank = 0; rank < kept.num_ranks(); ++rank) {
      const auto found = of.members.find(rank);
      kept.members.add(rank, found != of.members.end()
                                 ? found->second
                                 : Member{.id = -1, .incarnation = nobody(rank)});
    }
    return kept;
  }
  return std::nullopt;
}

}  // namespace troupe::actors

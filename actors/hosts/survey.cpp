#include "actors/hosts/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>
#include <set>
#include <utility>

namespace troupe::actors {
namespace {

constexpr int kAllTryAll = 64;
constexpr const char* kLost = "it was lost";
constexpr int kFollowing = 16, kDrawn = 16;

}  // namespace

void try_each_other(SurveyPlan& plan, std::uint64_t seed) {
  const int count = static_cast<int>(plan.hosts.size());
  std::mt19937_64 random(seed);
  for (int host = 0; host < count; ++host) {
    // As steps along the ring of hosts, so that not all begin with the same one.
    std::vector<int> steps;
    const int following = count <= kAllTryAll ? count - 1 : kFollowing;
    for (int step = 1; step <= following; ++step) steps.push_back(step);
    std::uniform_int_distribution<int> any(1, std::max(1, count - 1));
    while (count > kAllTryAll && std::ssize(steps) < kFollowing + kDrawn)
      if (const int step = any(random); std::ranges::find(steps, step) == steps.end())
        steps.push_back(step);
    auto& tries = plan.hosts[static_cast<std::size_t>(host)].tries;
    for (const int step : steps) tries.push_back((host + step) % count);
  }
}

void try_the_last(SurveyPlan& plan, std::uint64_t seed) {
  if (plan.hosts.empty()) return;
  const int last = static_cast<int>(plan.hosts.size()) - 1;
  std::vector<int> others(static_cast<std::size_t>(last));
  std::iota(others.begin(), others.end(), 0);
  auto& tries = plan.hosts.back().tries;
  std::ranges::sample(others, std::back_inserter(tries), kFollowing + kDrawn,
                      std::mt19937_64(seed));
  for (const int other : tries) plan.hosts[static_cast<std::size_t>(other)].tries.push_back(last);
}

std::vector<BrokenWay> SurveyResult::broken_ways() const {
  std::vector<BrokenWay> broken;
  for (const Entry& entry : hosts)
    for (const LinkProbe& link : entry.links)
      if (!link.connected) broken.push_back({entry.host, link.host, link.to + ": " + link.fault});
  return broken;
}

std::vector<BrokenWay> SurveyResult::parted_ways() const {
  std::set<std::pair<std::string, std::string>> whole;
  for (const Entry& entry : hosts)
    for (const LinkProbe& link : entry.links)
      if (link.connected) whole.emplace(entry.host, link.host);
  std::vector<BrokenWay> parted = broken_ways();
  std::erase_if(parted, [&](const BrokenWay& way) { return whole.contains({way.to, way.from}); });
  return parted;
}

Survey::Survey(std::uint64_t number, SurveyPlan plan, std::string secret, Send send)
    : number_(number), plan_(std::move(plan)), send_(std::move(send)), states_(plan_.hosts.size()) {
  for (const SurveyPlan::Place& place : plan_.hosts)
    result_.hosts.push_back({.host = place.host, .address = place.address});
  const SurveyBegun order{
      .survey = number_, .secret = std::move(secret), .ports = plan_.ports, .looks = plan_.looks};
  for (std::size_t host = 0; host < states_.size(); ++host) send_to(host, order);
  go_on_if_complete();
}

/// Sends an order that is answered. A host that is gone is not waited for.
void Survey::send_to(std::size_t host, const Order& order) {
  states_[host].waited_for = send_(plan_.hosts[host].host, order);
  if (!states_[host].waited_for) result_.hosts[host].fault = kLost;
}

/// -1: none that takes part.
int Survey::find(const std::string& host) const {
  const auto found = std::ranges::find(plan_.hosts, host, &SurveyPlan::Place::host);
  return found == plan_.hosts.end() ? -1 : static_cast<int>(found - plan_.hosts.begin());
}

void Survey::take(const std::string& host, const HostSurveyed& answer) {
  const int number = find(host);
  if (answer.survey != number_ || number < 0 || phase_ != Phase::opening) return;
  const auto at = static_cast<std::size_t>(number);
  states_[at].port = answer.port;
  result_.hosts[at].facts = answer.facts;
  result_.hosts[at].fault = answer.fault;
  answered(number);
}

void Survey::take(const std::string& host, const LinksProbed& answer) {
  const int number = find(host);
  if (answer.survey != number_ || number < 0 || phase_ != Phase::probing) return;
  result_.hosts[static_cast<std::size_t>(number)].links = answer.links;
  answered(number);
}

void Survey::lose(const std::string& host) {
  if (const int number = find(host); number >= 0 && !over()) give_up(number, kLost);
}

void Survey::pass(double seconds) {
  if (over()) return;
  waited_s_ += seconds;
  if (waited_s_ < plan_.limit_s) return;
  std::vector<int> late;  // first, as the last of them lets the others go on
  for (int host = 0; host < std::ssize(states_); ++host)
    if (states_[static_cast<std::size_t>(host)].waited_for) late.push_back(host);
  for (const int host : late)
    give_up(host, fmt::format("its agent has not answered for {:g} s", plan_.limit_s));
}

void Survey::answered(int host) {
  states_[static_cast<std::size_t>(host)].waited_for = false;
  go_on_if_complete();
}

void Survey::give_up(int host, const std::string& why) {
  const auto at = static_cast<std::size_t>(host);
  if (result_.hosts[at].fault.empty()) result_.hosts[at].fault = why;
  states_[at].port = 0;
  answered(host);
}

void Survey::go_on_if_complete() {
  if (over() || std::ranges::any_of(states_, &State::waited_for)) return;
  if (phase_ == Phase::opening) return begin_probing();
  phase_ = Phase::over;
  for (const SurveyPlan::Place& place : plan_.hosts)
    send_(place.host, SurveyEnded{.survey = number_});
}

void Survey::begin_probing() {
  phase_ = Phase::probing;
  waited_s_ = 0;
  for (std::size_t host = 0; host < states_.size(); ++host) {
    ProbeLinks order{.survey = number_,
                     .targets = {},
                     .patience_s = plan_.patience_s,
                     .measures = plan_.measures};
    for (const int other : plan_.hosts[host].tries) {
      const auto at = static_cast<std::size_t>(other);
      const SurveyPlan::Place& place = plan_.hosts[at];
      if (states_[at].port > 0)
        order.targets.push_back(
            {.host = place.host, .address = place.address, .port = states_[at].port});
    }
    // Who has not opened a port may still be there, but says nothing.
    if (states_[host].port > 0 && !order.targets.empty()) send_to(host, order);
  }
  go_on_if_complete();
}

}  // namespace troupe::actors

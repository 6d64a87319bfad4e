#include "actors/protocol/hosts/time_limits.h"

namespace troupe::actors {

void TimeLimits::set(const std::string& host, double ends_s, double now_s) {
  limits_.erase(host);
  if (ends_s > 0) limits_[host] = {.ends_s = ends_s, .most_s = (ends_s - now_s) / 2};
}

/// When leaving the host has to begin.
double TimeLimits::begins_s(const Limit& limit) const {
  return limit.ends_s - std::min(std::max(kLeast, step_s_ + change_s_ + save_s_), limit.most_s);
}

std::vector<std::string> TimeLimits::due(double now_s) {
  const auto is_due = [this](const auto& one, double by_s) { return begins_s(one.second) <= by_s; };
  std::vector<std::string> hosts;
  if (std::ranges::none_of(limits_, [&](const auto& one) { return is_due(one, now_s); }))
    return hosts;
  std::erase_if(limits_, [&](const auto& one) {
    if (!is_due(one, now_s + kTogether)) return false;
    hosts.push_back(one.first);
    return true;
  });
  return hosts;
}

}  // namespace troupe::actors

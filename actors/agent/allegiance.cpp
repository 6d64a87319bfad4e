#include "actors/agent/allegiance.h"

#include <fmt/format.h>

#include <limits>

namespace troupe::actors {

void Allegiance::heard(double now_s) {
  heard_s_ = now_s;
}

void Allegiance::gone(double now_s) {
  if (!gone_s_) gone_s_ = now_s;
}

void Allegiance::begins(std::uint64_t term, double wait_s, double silent_s) {
  term_ = term;
  wait_s_ = wait_s;
  cut_off_s_ = silent_s > 0 ? silent_s + kMargin : std::numeric_limits<double>::infinity();
}

bool Allegiance::turns_to(std::uint64_t term, double now_s) {
  if (term <= term_) return false;
  term_ = term;
  heard_s_ = now_s;
  gone_s_.reset();
  return true;
}

std::optional<double> Allegiance::lost_at(double now_s) const {
  if (gone_s_) return gone_s_;
  if (silent_s(now_s) > cut_off_s_) return *heard_s_ + cut_off_s_;
  return std::nullopt;
}

std::string Allegiance::over(double now_s) const {
  const auto lost_s = lost_at(now_s);
  if (!lost_s || now_s - *lost_s < wait_s_) return "";
  const std::string lost =
      gone_s_ ? "the launcher is gone"
              : fmt::format("the launcher has not answered for {:g} s", cut_off_s_);
  if (wait_s_ == 0) return lost;
  return fmt::format("{}, and no other has come within cluster.director_wait = {:g} s", lost,
                     wait_s_);
}

}  // namespace troupe::actors

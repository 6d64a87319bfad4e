#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::actors {

/// Whom an agent obeys, and how long it keeps its workers once nobody is heard. A pure value; times
/// are seconds of the monotonic clock.
class Allegiance {
 public:
  /// The launcher gave a sign of life.
  void heard(double now_s);
  /// The connection to it has ended.
  void gone(double now_s);
  /// Its run has begun: from now on the workers are kept for `wait_s` once it is lost; 0: not. It
  /// counts as lost when it has been silent for longer than it waits for a host before it does
  /// without, `silent_s`, and 5 s, so that no state is thrown away that it still counts on; never,
  /// if it waits for ever (0).
  void begins(std::uint64_t term, double wait_s, double silent_s);
  /// Another launcher asks to be obeyed. Returns whether it is, because its term is higher.
  bool turns_to(std::uint64_t term, double now_s);

  std::uint64_t term() const { return term_; }
  /// How long the launcher has been silent; 0 before it was first heard.
  double silent_s(double now_s) const { return heard_s_ ? now_s - *heard_s_ : 0; }
  /// Whether the connection to the launcher has ended, and no other has come.
  bool is_gone() const { return gone_s_.has_value(); }
  /// Whether nobody is obeyed at the moment.
  bool is_orphaned(double now_s) const { return lost_at(now_s).has_value(); }
  /// Why the agent is to end; empty: it goes on.
  std::string over(double now_s) const;

 private:
  static constexpr double kMargin = 5;
  /// Since when the launcher is lost; none if it is not.
  std::optional<double> lost_at(double now_s) const;

  std::uint64_t term_ = 0;
  double wait_s_ = 0;
  double cut_off_s_ = 3 + kMargin;  ///< the silence after which it counts as lost
  std::optional<double> heard_s_, gone_s_;
};

}  // namespace troupe::actors

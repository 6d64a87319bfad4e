#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "actors/messages/survey_messages.h"
#include "actors/protocol/hosts/partition.h"

namespace troupe::actors {

/// Which hosts take part in a survey, and what they do.
struct SurveyPlan {
  struct Place {
    std::string host;
    std::string address;     ///< numeric, at which the others reach it
    std::vector<int> tries;  ///< hosts that it tries the way to, as numbers in `hosts`
  };
  std::vector<Place> hosts;
  std::string ports;       ///< cluster.ports
  double patience_s = 10;  ///< a way on which nothing moves for so long is broken
  bool looks = false;      ///< whether hosts tell of themselves
  bool measures = false;   ///< whether ways are measured, or just tried
  /// How long hosts may take to answer, once to open a port and once to try ways. It is for those
  /// that live and do not answer; lost ones are not waited for.
  double limit_s = 60;
};

/// Has each host try the way to others: to all if there are up to 64 hosts, else to 16 that follow
/// it and 16 that are drawn, so that a survey of thousands takes no longer than one of 64.
void try_each_other(SurveyPlan& plan, std::uint64_t seed);

/// Has the last host of a plan and others, up to 32 that are drawn, try the ways between them.
void try_the_last(SurveyPlan& plan, std::uint64_t seed);

/// What came of a survey, by host, in the plan's order.
struct SurveyResult {
  struct Entry {
    std::string host;
    std::string address;
    std::string fault;  ///< why nothing is known of it; empty: it has answered
    HostFacts facts;
    std::vector<LinkProbe> links;  ///< to those that had a port
  };
  std::vector<Entry> hosts;

  /// The ways on which no connection was made.
  std::vector<BrokenWay> broken_ways() const;
  /// The broken ways whose other direction is broken too, or was not tried: a network that loses
  /// packets now and then breaks a single direction.
  std::vector<BrokenWay> parted_ways() const;
};

/// A survey as a state machine without clock and connections: hosts open their ports, try the ways
/// to each other's when all have, and close them when all are done.
class Survey {
 public:
  using Order = std::variant<SurveyBegun, ProbeLinks, SurveyEnded>;
  /// Sends an order to a host. False if it is gone.
  using Send = std::function<bool(const std::string& host, const Order& order)>;

  /// Sends the first orders. `number` is another one than the last survey's.
  Survey(std::uint64_t number, SurveyPlan plan, std::string secret, Send send);

  /// Answers of an older survey, and of who does not take part, are ignored.
  void take(const std::string& host, const HostSurveyed& answer);
  void take(const std::string& host, const LinksProbed& answer);
  void lose(const std::string& host);
  /// So much time has passed.
  void pass(double seconds);

  bool over() const { return phase_ == Phase::over; }
  /// Requires over().
  const SurveyResult& result() const { return result_; }

 private:
  enum class Phase { opening, probing, over };
  struct State {
    int port = 0;
    bool waited_for = true;
  };
  int find(const std::string& host) const;
  void answered(int host);
  void give_up(int host, const std::string& why);
  void go_on_if_complete();
  void begin_probing();
  void send_to(std::size_t host, const Order& order);

  const std::uint64_t number_;
  const SurveyPlan plan_;
  const Send send_;
  Phase phase_ = Phase::opening;
  std::vector<State> states_;  // by number in the plan
  double waited_s_ = 0;        ///< in this phase
  SurveyResult result_;
};

}  // namespace troupe::actors

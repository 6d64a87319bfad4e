#include "actors/agent/surveyor.h"

#include <optional>
#include <utility>

#include "actors/agent/host_facts.h"
#include "actors/agent/link_probe.h"
#include "actors/agent/probe_port.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// This host in one survey. Its handlers block, on a thread of its own.
class SurveyWorker : public ControlActor {
 public:
  SurveyWorker(caf::actor_config& config, caf::actor owner, std::string address, SurveyBegun order,
               std::stop_token stop, OwnThreads::Token thread)
      : ControlActor(config),
        owner_(std::move(owner)),
        address_(std::move(address)),
        order_(std::move(order)),
        stop_(std::move(stop)),
        thread_(std::move(thread)) {}

  caf::behavior make_behavior() override {
    tell(open());
    return {[this](const ProbeLinks& order) { tell(probe(order)); },
            [this](SurveyOver) { quit(); }};
  }
  void on_exit() override {
    owner_ = nullptr;
    port_.reset();
  }

 private:
  HostSurveyed open() {
    HostSurveyed told{.survey = order_.survey};
    try {
      if (order_.looks) told.facts = facts_of_host(address_, order_.ports);
      port_.emplace(address_, order_.ports, order_.secret);
      told.port = port_->port();
    } catch (const std::exception& error) {
      told.fault = text_of(error);
    }
    return told;
  }
  LinksProbed probe(const ProbeLinks& order) {
    const ProbeManner manner{
        .secret = order_.secret, .patience_s = order.patience_s, .measures = order.measures};
    return {.survey = order.survey, .links = probe_links(order.targets, manner, stop_)};
  }
  template <typename Answer>
  void tell(Answer answer) {
    send(owner_, SurveyorTold{std::move(answer)});
  }
  /// Who began the survey waits no longer for an answer than it says.
  void on_failure(const std::string&) override {}

  caf::actor owner_;
  const std::string address_;
  const SurveyBegun order_;
  const std::stop_token stop_;
  std::optional<ProbePort> port_;
  const OwnThreads::Token thread_;
};

}  // namespace

void Surveyor::obey(const SurveyBegun& order) {
  if (order.survey == survey_) return;
  stop();
  survey_ = order.survey;
  stop_ = std::stop_source();
  worker_ = owner_.system().spawn<SurveyWorker, caf::detached>(caf::actor_cast<caf::actor>(&owner_),
                                                               address_, order, stop_.get_token(),
                                                               own_threads_.token());
}

void Surveyor::obey(const ProbeLinks& order) {
  if (worker_ && order.survey == survey_) caf::anon_send(worker_, order);
}

void Surveyor::obey(const SurveyEnded& order) {
  if (order.survey == survey_) stop();
}

void Surveyor::stop() {
  stop_.request_stop();
  if (worker_) caf::anon_send(worker_, SurveyOver{});
  worker_ = nullptr;
}

}  // namespace troupe::actors

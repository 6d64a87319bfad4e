#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <cstdio>

#include "launch/monitors/monitor_actor.h"
#include "tensor/errors/error.h"

using namespace troupe::launch;

/// Warns when a step's loss is far above the moving average of the steps before it.
class LossMonitor : public MonitorActor {
  using MonitorActor::MonitorActor;

  void on_event(const nlohmann::json& event) override {
    if (!event.at("loss").is_number()) return;
    const double loss = event.at("loss"), step = event.at("step");
    if (mean_ > 0 && loss > 1.5 * mean_) std::printf("step %.0f: loss jumps to %f\n", step, loss);
    mean_ = mean_ > 0 ? 0.9 * mean_ + 0.1 * loss : loss;
    ++steps_;
  }
  void on_end(const Ending&) override { std::printf("%d steps, mean loss %f\n", steps_, mean_); }

  double mean_ = 0;
  int steps_ = 0;
};

int main(int argc, char** argv) try {
  const char* const dir = argc > 1 ? argv[1] : ".";
  auto run = Attachment::open(dir, {.kinds = "step", .who = "loss monitor"});
  if (const auto* ending = std::get_if<Ending>(&run)) {
    std::fprintf(stderr, "%s\n", describe(*ending, dir).c_str());
    return 69;
  }
  caf::actor_system_config config;
  caf::actor_system system(config);  // its destructor waits until the monitor has ended
  system.spawn<LossMonitor>(std::move(std::get<std::unique_ptr<Attachment>>(run)));
  return 0;
} catch (const troupe::Error& error) {
  std::fprintf(stderr, "loss_monitor: %s\n", error.what());
  return static_cast<int>(error.kind());
}

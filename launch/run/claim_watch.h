#pragma once

#include <functional>

#include "actors/topology/reports.h"
#include "stages/storage/claim.h"

namespace troupe::launch {

/// Passes reports on while the run's directory is this launcher's. Once it is not, as somebody has
/// removed, moved or replaced it, `on_fallen` is called, once and by the thread that reports, and
/// nothing is passed on any more.
class ClaimWatch : public actors::RunObserver {
 public:
  /// The observer outlives the object.
  ClaimWatch(actors::RunObserver& observer, stages::Claim claim, std::function<void()> on_fallen);

  void on_step(const actors::StepReport& report) override;
  void on_step_again(const actors::StepReport& report, const actors::CatchUp& way) override;
  void on_eval(const actors::EvalReport& report) override;
  void on_checkpoint(std::int64_t step, const std::string& path) override;
  void on_not_saved(std::int64_t step, const std::string& error) override;
  void on_scaled(const actors::ClusterShape& shape, bool ordered) override;
  void on_event(const std::string& text) override;

 private:
  bool stands();

  actors::RunObserver& observer_;
  const stages::Claim claim_;
  const std::function<void()> on_fallen_;
  bool fallen_ = false;
};

}  // namespace troupe::launch

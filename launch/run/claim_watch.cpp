#include "launch/run/claim_watch.h"

#include <utility>

namespace troupe::launch {

ClaimWatch::ClaimWatch(actors::RunObserver& observer, stages::Claim claim,
                       std::function<void()> on_fallen)
    : observer_(observer), claim_(std::move(claim)), on_fallen_(std::move(on_fallen)) {}

bool ClaimWatch::stands() {
  if (fallen_) return false;
  fallen_ = !claim_.stands();
  if (fallen_) on_fallen_();
  return !fallen_;
}

void ClaimWatch::on_step(const actors::StepReport& report) {
  if (stands()) observer_.on_step(report);
}

void ClaimWatch::on_step_again(const actors::StepReport& report, const actors::CatchUp& way) {
  if (stands()) observer_.on_step_again(report, way);
}

void ClaimWatch::on_eval(const actors::EvalReport& report) {
  if (stands()) observer_.on_eval(report);
}

void ClaimWatch::on_checkpoint(std::int64_t step, const std::string& path) {
  if (stands()) observer_.on_checkpoint(step, path);
}

void ClaimWatch::on_not_saved(std::int64_t step, const std::string& error) {
  if (stands()) observer_.on_not_saved(step, error);
}

void ClaimWatch::on_scaled(const actors::ClusterShape& shape, bool ordered) {
  if (stands()) observer_.on_scaled(shape, ordered);
}

void ClaimWatch::on_event(const std::string& text) {
  if (stands()) observer_.on_event(text);
}

}  // namespace troupe::launch

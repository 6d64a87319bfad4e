#include "launch/monitors/step_sampler.h"

#include <utility>

#include "launch/control/control_protocol.h"
#include "stages/storage/output_file.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using namespace actors;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

}  // namespace

StepSampler::StepSampler(Hub& hub, std::filesystem::path file, stages::Claim claim)
    : hub_(hub), file_(std::move(file)), claim_(std::move(claim)) {
  start();
  thread_.emplace(hub, "step sampler", mask_of<StepCommitted, MembershipChanged>(),
                  [this](const Subscription::Batch& batch) { follow(batch); });
}

StepSampler::~StepSampler() {
  thread_.reset();  // first, because it uses the other one
  tracer_.reset();
  write();
}

void StepSampler::start() {
  tracer_.emplace(hub_, "step sampler", mask_of<ActionsTraced>(),
                  [this](const Subscription::Batch& batch) { gather(batch); });
}

void StepSampler::follow(const Subscription::Batch& batch) {
  for (const auto& event : batch.events) {
    const auto* membership = std::get_if<MembershipChanged>(&event->body);
    if (!membership) continue;
    const std::lock_guard lock(mutex_);
    ranks_ = membership->ranks;
    gatherer_.expect(event->configuration, ranks_.size());
    taken_ = 0;
  }
  const bool wants = wants_a_step();
  if (wants && !tracer_) start();
  if (wants || !tracer_) return;
  tracer_.reset();
  write();
}

void StepSampler::gather(const Subscription::Batch& batch) {
  const std::lock_guard lock(mutex_);
  for (const auto& event : batch.events) {
    const auto step = gatherer_.add(*event, std::get<ActionsTraced>(event->body));
    if (!step) continue;
    unwritten_ = to_json(*step, ranks_);
    last_ = Clock::now();
    ++taken_;
  }
}

bool StepSampler::wants_a_step() {
  const std::lock_guard lock(mutex_);
  return taken_ < kFirstSteps || Clock::now() - last_ > kPeriod;
}

void StepSampler::write() {
  const std::lock_guard lock(mutex_);
  const auto step = std::exchange(unwritten_, std::nullopt);
  if (!step || !claim_.stands()) return;
  try {
    stages::PublishedFile file(file_);
    file.file().write(to_text(*step) + "\n");
    file.publish();
  } catch (const Error&) {
    // The file keeps the step that it has.
  }
}

}  // namespace troupe::launch

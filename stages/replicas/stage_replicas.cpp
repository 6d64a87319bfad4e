#include "stages/replicas/stage_replicas.h"

#include "stages/replicas/gathered_weights.h"
#include "stages/replicas/unit_weights.h"

namespace troupe::stages {
namespace {

std::vector<SharedBucket> divided_buckets(const DataParallelSpec& spec, const Stage& stage,
                                          const GradientGroups& groups) {
  if (stage.buckets().empty()) return {};
  return shared_buckets(spec, stage, groups.replicas.group);
}

}  // namespace

StageReplicas::StageReplicas(const DataParallelSpec& spec, Stage& stage,
                             const GradientGroups& groups, tensor::Device& device)
    : stage_(stage),
      buckets_(divided_buckets(spec, stage, groups)),
      gradients_(spec, stage, groups, device, log_),
      stream_(device.make_stream()) {
  if (buckets_.empty()) return;
  norms_.emplace(stage, buckets_, *groups.replicas.group, device);
  if (stage.weights())
    weights_ = std::make_unique<GatheredWeights>(stage, buckets_, groups.replicas,
                                                 spec.overlaps_gather, device, log_);
  else
    weights_ = std::make_unique<UnitWeights>(spec, stage, buckets_, groups, device, log_);
  stage.set_gate(this);
}

StageReplicas::~StageReplicas() {
  stage_.set_gate(nullptr);
}

void StageReplicas::begin_step() {
  log_.clear_spans();
  gradients_.begin_step();
  if (weights_) weights_->begin_step();
}

void StageReplicas::expect(const UnitOrder& order) {
  if (weights_) weights_->expect(order);
}

void StageReplicas::added(const NodeEffects& node, Microbatch microbatch, tensor::Event& ran) {
  gradients_.added(node, microbatch, ran);
}

void StageReplicas::progress() {
  gradients_.progress();
  if (weights_) weights_->progress();
}

void StageReplicas::squared_norms(std::span<double> out) {
  norms_ ? norms_->sum(*stream_, out) : stage_.squared_norms(out);
}

void StageReplicas::share_weights() {
  if (weights_) weights_->share();
}

void StageReplicas::complete_weights() {
  if (weights_) weights_->complete();
}

const tensor::Work* StageReplicas::awaited(Pass pass, const NodeEffects& node) {
  if (const tensor::Work* const work = gradients_.awaited(node)) return work;
  return weights_ ? weights_->awaited(pass, node) : nullptr;
}

double StageReplicas::open(Pass pass, const NodeEffects& node) {
  const double waited_s = gradients_.open(node);
  return waited_s + (weights_ ? weights_->open(pass, node) : 0);
}

}  // namespace troupe::stages

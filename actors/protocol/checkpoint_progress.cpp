#include "actors/protocol/checkpoint_progress.h"

#include <algorithm>

namespace troupe::actors {

void CheckpointProgress::begin(std::int64_t step, int num_replicas) {
  writing_ = step;
  parts_.begin(num_replicas);
  error_.clear();
  for_good_ = false;
}

bool CheckpointProgress::add(const ReplicaSaved& answer) {
  if (writing_ != answer.step || publishing_) return false;
  const bool is_worse = answer.for_good && !for_good_;
  if (error_.empty() || is_worse) error_ = answer.error;
  for_good_ |= answer.for_good;
  parts_.add(answer.replica);
  publishing_ = parts_.complete();
  return publishing_;
}

bool CheckpointProgress::finish(const Published& published) {
  if (published.error.empty()) saved_ = std::max(saved_, published.step);
  if (writing_ != published.step) return false;
  writing_.reset();
  publishing_ = false;
  if (published.error.empty()) {
    failed_ = -1;
    return true;
  }
  num_failures_ = failed(published.step) ? num_failures_ + 1 : 1;
  failed_ = published.step;
  error_ = published.error;
  return true;
}

void CheckpointProgress::give_up() {
  if (!publishing_) writing_.reset();
}

}  // namespace troupe::actors

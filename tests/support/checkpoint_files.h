#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/hugging_face/side_files.h"
#include "tests/support/fake_stage.h"

namespace troupe::test {

/// Layer boundaries of a pipeline: stage i holds layers [cuts[i], cuts[i+1]).
using Cuts = std::vector<int>;

/// What checkpoints of a run keep that began with fresh weights.
inline stages::ModelSource fresh_source(const stages::CheckpointInfo& info) {
  return {.config = "", .files = stages::side_files({}, info.tokenizer)};
}

/// Writes step-`info.step` as the ranks of a pipeline of so many shards a stage would, each filled
/// by FakeStage::fill.
inline std::filesystem::path write_checkpoint(const std::filesystem::path& checkpoints,
                                              const stages::CheckpointInfo& info, const Cuts& cuts,
                                              int shards = 1) {
  const std::filesystem::path dir = stages::unfinished_checkpoint(checkpoints, info.step);
  const int num_parts = static_cast<int>(cuts.size()) - 1;
  for (int part = 0; part < num_parts; ++part)
    for (int shard = 0; shard < shards; ++shard) {
      const stages::Sharding sharding{.size = shards, .shard = shard};
      FakeStage stage(info.model, cuts[static_cast<std::size_t>(part)],
                      cuts[static_cast<std::size_t>(part) + 1], sharding);
      stage.fill();
      stages::write_checkpoint_part(dir, stage, info.model, {part, num_parts, sharding});
    }
  stages::finish_checkpoint(dir, info, num_parts, fresh_source(info));
  return checkpoints / ("step-" + std::to_string(info.step));
}

inline stages::CheckpointInfo small_info(std::int64_t step = 7) {
  return {.step = step,
          .next_sample = step * 16,
          .model = small_model(),
          .tokenizer = "bytes",
          .seq_len = 64};
}

}  // namespace troupe::test

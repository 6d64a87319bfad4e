#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stages/model_config.h"
#include "stages/stage.h"

namespace troupe::stages {

/// What a checkpoint says of the run besides tensors.
struct CheckpointInfo {
  std::int64_t step = 0;          ///< updates applied; the next step is step + 1
  std::int64_t next_sample = 0;   ///< data cursor, counting on, not modulo the number of samples
  ModelConfig model;
  std::string tokenizer;          ///< manifest name; a SentencePiece model is copied into the checkpoint
  std::int64_t seq_len = 0;
};

// A checkpoint directory step-N, described byte by byte in stages/README.md: config.json (Hugging Face),
// model-0000i-of-0000n.safetensors + model.safetensors.index.json, optimizer-0000i-of-0000n.safetensors (names
// <parameter>.exp_avg, .exp_avg_sq), tokenizer.model, and last state.json (CheckpointInfo and the size of every file):
// its presence marks the checkpoint complete. Written as step-N.tmp, synced, renamed.

/// Rank part: writes this stage's owned parameters as files `part` of `num_parts` into directory `dir` (step-N.tmp,
/// which exists) and syncs them. Returns nothing to keep: finish_checkpoint finds the files.
void write_checkpoint_part(const std::filesystem::path& dir, const Stage& stage, int part, int num_parts);

/// Director part, after every rank has written: index, config, tokenizer, state.json, sync, rename to step-N. Replaces
/// nothing: an existing step-N is an error unless it is incomplete.
void finish_checkpoint(const std::filesystem::path& dir, const CheckpointInfo& info, int num_parts);

/// A complete checkpoint, opened and checked: state.json, file sizes, safetensors headers, names and shapes against the
/// config. Throws Error{data} that names the file and what is wrong.
class CheckpointReader {
 public:
  static std::unique_ptr<CheckpointReader> open(const std::filesystem::path& dir);
  virtual ~CheckpointReader() = default;
  virtual const CheckpointInfo& info() const = 0;
  /// Path or name to give to Tokenizer::open.
  virtual std::string tokenizer() const = 0;
  /// Throws Error{data} naming the first field that differs, with both values.
  virtual void check_model(const ModelConfig& model) const = 0;
  /// Fills the stage's weights (and optimizer state unless weights_only) and calls weights_changed().
  virtual void load(Stage& stage, bool weights_only) const = 0;
};

/// Numbers N of the complete checkpoints step-N under a run's checkpoints directory, ascending.
std::vector<std::int64_t> complete_checkpoints(const std::filesystem::path& checkpoints);
/// Removes the oldest complete ones beyond `keep` (step-0 is exempt) and leftovers of unfinished ones.
void prune_checkpoints(const std::filesystem::path& checkpoints, int keep);

}  // namespace troupe::stages

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "stages/model_config.h"
#include "stages/stage.h"

namespace troupe::stages {

/// What a checkpoint says of the run besides tensors.
struct CheckpointInfo {
  std::int64_t step = 0;         ///< updates applied; the next step is step + 1
  std::int64_t next_sample = 0;  ///< data cursor, counting on, not modulo the number of samples
  ModelConfig model;
  std::string tokenizer;  ///< manifest name; a SentencePiece model is copied into the checkpoint
  std::int64_t seq_len = 0;
};

// A checkpoint directory step-N, described byte by byte in stages/README.md: config.json (Hugging
// Face), model-0000i-of-0000n.safetensors + model.safetensors.index.json,
// optimizer-0000i-of-0000n.safetensors (names <parameter>.exp_avg, .exp_avg_sq) +
// optimizer.safetensors.index.json, tokenizer.model, and last state.json (CheckpointInfo, and size
// and checksum of every file): its presence marks the checkpoint complete. Written as step-N.tmp,
// synced, renamed.

/// Director part, before any rank writes: makes an empty <checkpoints>/step-N.tmp, in place of what
/// an unfinished attempt left there, and returns its path. Throws Error{internal} with the system's
/// reason.
std::filesystem::path begin_checkpoint(const std::filesystem::path& checkpoints, std::int64_t step);

/// Rank part: writes this stage's owned parameters, which are in host memory and do not change
/// meanwhile, as files `part` (from 0) of `num_parts` into directory `dir` (step-N.tmp, which
/// exists) and syncs them. Returns nothing to keep: finish_checkpoint finds the files. Throws
/// Error{internal} with the path and the system's reason (disk full).
void write_checkpoint_part(const std::filesystem::path& dir, const Stage& stage, int part,
                           int num_parts);

/// Director part, after every rank has written: index, config, tokenizer, state.json, sync, rename
/// to step-N. Throws Error{data} naming the file or tensor if the parts do not hold every tensor of
/// the model once, Error{internal} with the system's reason where writing fails. Replaces nothing:
/// an existing step-N is an Error{data} unless it is incomplete.
void finish_checkpoint(const std::filesystem::path& dir, const CheckpointInfo& info, int num_parts);

/// A complete checkpoint, opened and checked: state.json, file sizes, safetensors headers, names
/// and shapes against the config. What it costs does not depend on the size of the tensors. Throws
/// Error{data} that names the file and what is wrong.
class CheckpointReader {
 public:
  static std::unique_ptr<CheckpointReader> open(const std::filesystem::path& dir);
  virtual ~CheckpointReader() = default;
  virtual const CheckpointInfo& info() const = 0;
  /// Path or name to give to Tokenizer::open.
  virtual std::string tokenizer() const = 0;
  /// Throws Error{data} naming the first field that differs, with both values. Only fields that
  /// decide what the weights mean count: neither dtype nor initializer_range.
  virtual void check_model(const ModelConfig& model) const = 0;
  /// Reads every byte and compares it with its checksum. Throws Error{data} naming the damaged
  /// file.
  virtual void verify() const = 0;
  /// Fills the stage's weights (and optimizer state unless weights_only), all in host memory, and
  /// calls weights_changed(). What is read is compared with its checksum. Throws Error{data} naming
  /// file and tensor.
  virtual void load(Stage& stage, bool weights_only) const = 0;
};

/// Numbers N of the complete checkpoints step-N under a run's checkpoints directory, ascending.
std::vector<std::int64_t> complete_checkpoints(const std::filesystem::path& checkpoints);
/// Removes the oldest complete ones beyond the newest `keep` (step-0 is exempt) and leftovers of
/// unfinished ones. Not while a checkpoint is being written there.
void prune_checkpoints(const std::filesystem::path& checkpoints, int keep);

}  // namespace troupe::stages

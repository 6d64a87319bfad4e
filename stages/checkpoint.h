#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "stages/model_config.h"
#include "stages/stage.h"

namespace troupe::stages {

/// How the steps before a checkpoint were trained: what a run that goes on is compared with.
struct Training {
  std::uint64_t seed = 0;
  std::string digest;  ///< of the corpus (scan_tokens); empty: not known
  bool shuffle = false;
  std::int64_t global = 0;  ///< samples of a step
  double lr = 0;            ///< of the last update
  bool operator==(const Training&) const = default;
};

/// What a checkpoint says of the run besides tensors.
struct CheckpointInfo {
  std::int64_t step = 0;         ///< updates applied; the next step is step + 1
  std::int64_t next_sample = 0;  ///< data cursor, counting on, not modulo the number of samples
  ModelConfig model;
  std::string tokenizer;  ///< manifest name; a SentencePiece model is copied into the checkpoint
  std::int64_t seq_len = 0;
  std::optional<Training> training;  ///< none: written before this was kept
};

// A checkpoint directory step-N, described byte by byte in stages/README.md: config.json (Hugging
// Face), model-0000i-of-0000n.safetensors + model.safetensors.index.json,
// optimizer-0000i-of-0000n.safetensors (names <parameter>.exp_avg, .exp_avg_sq) +
// optimizer.safetensors.index.json, tokenizer.model, and last state.json (CheckpointInfo, and size
// and checksum of every file): its presence marks the checkpoint complete. Written as step-N.tmp,
// synced, renamed.

/// <checkpoints>/step-N.tmp, where step-N is written.
std::filesystem::path unfinished_checkpoint(const std::filesystem::path& checkpoints,
                                            std::int64_t step);

/// Rank part: writes this stage's owned parameters, which are in host memory and do not change
/// meanwhile, as files `part` (from 0) of `num_parts` into directory `dir` (step-N.tmp, made where
/// it is missing) and syncs them. `written`, if given, grows by the bytes of each tensor that is
/// written. Returns nothing to keep: finish_checkpoint finds the files. Throws Error{internal} with
/// the path and the system's reason (disk full).
void write_checkpoint_part(const std::filesystem::path& dir, const Stage& stage, int part,
                           int num_parts, std::atomic<std::uint64_t>* written = nullptr);

/// Director part, after every rank has written: index, config, tokenizer, state.json, sync, rename
/// to step-N; what an unfinished attempt left there goes. Throws Error{data} naming the file or
/// tensor if the parts do not hold every tensor of the model once, Error{internal} with the
/// system's reason where writing fails, Error{retry} soon after it was asked to stop. Replaces
/// nothing: an existing step-N is an Error{data} unless it is incomplete.
void finish_checkpoint(const std::filesystem::path& dir, const CheckpointInfo& info, int num_parts,
                       const std::stop_token& stop = {});

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

#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "stages/corpus/text/documents.h"
#include "stages/corpus/text/text_rules.h"
#include "stages/files/hugging_face/side_files.h"
#include "stages/model/model_config.h"
#include "stages/model/sharding.h"
#include "stages/stage/stage.h"
#include "stages/storage/progress.h"

namespace troupe::stages {

/// How the steps before a checkpoint were trained. A run that resumes is compared with it.
struct Training {
  std::uint64_t seed = 0;
  std::string digest;  ///< of the corpus (scan_tokens); empty if not known
  bool shuffle = false;
  std::string documents{name_of(Documents::joined)};       ///< how the corpus becomes samples
  std::string loss_on{name_of(LossOn::all)};               ///< which of their tokens are targets
  std::string bos{kAutoMark}, end_of_document{kAutoMark};  ///< what is around them (TextRules)
  std::int64_t global = 0;                                 ///< samples per step
  double lr = 0;                                           ///< of the last update
  bool operator==(const Training&) const = default;
};

/// What a checkpoint says about the run besides its tensors.
struct CheckpointInfo {
  std::int64_t step = 0;         ///< updates applied; the next step is step + 1
  std::int64_t next_sample = 0;  ///< data cursor: counts on, not modulo the number of samples
  /// A reader finds of its groups which tensors are frozen. Of an adapter's checkpoint a
  /// reader finds the base here, and the adapter beside it.
  ModelConfig model;
  std::optional<Adapter> adapter{};
  std::string tokenizer;  ///< manifest name; a SentencePiece model is copied into the checkpoint
  std::int64_t seq_len = 0;
  std::optional<Training> training;  ///< none in checkpoints of older versions

  /// What was trained: the model with its adapter, if there is one.
  ModelConfig trained_model() const {
    ModelConfig trained = model;
    if (adapter) trained.adapter = adapter;
    return trained;
  }
};

/// What a rank writes of a checkpoint: its shard's regions of the tensors in files `part` (from 0)
/// of `num_parts`, one part for each stage.
struct CheckpointPart {
  int part = 0;
  int num_parts = 1;
  Sharding sharding;
};

// A checkpoint directory step-N, described byte by byte in stages/files/README.md: config.json
// (Hugging Face), model-0000i-of-0000n.safetensors + model.safetensors.index.json,
// optimizer-0000i-of-0000n.safetensors (names <parameter>.exp_avg, .exp_avg_sq) +
// optimizer.safetensors.index.json (of a model with an adapter, which alone is saved, in place of
// the first three adapter_config.json and adapter_model.safetensors, as PEFT has them), the
// tokenizer's and the source's files, and last state.json
// (CheckpointInfo, and size and checksum of every file): its presence marks the checkpoint
// complete. Written as step-N.<attempt>.tmp, synced, renamed.

/// A directory <checkpoints>/step-N.<attempt>.tmp, in which step-N is to be written. Each call
/// returns another one, so that nothing which an attempt has left is ever taken for a part of a
/// later one.
std::filesystem::path unfinished_checkpoint(const std::filesystem::path& checkpoints,
                                            std::int64_t step);

/// Rank part: writes the regions of the stage's parameters which this rank owns, complete and not
/// changing meanwhile, into directory `dir` (unfinished_checkpoint, created if it is missing) and
/// syncs them. Called from any thread: copies beside what the stage computes. All shards of a stage
/// write into the same files, at the same time or one after the other. Requires a model that
/// check_sharding accepts. `written`, if given, grows by the bytes of each region that is written.
/// On a full disk older checkpoints of the run beside `dir` make room, but never the newest.
/// Returns nothing, because finish_checkpoint finds the files. Throws Error{internal} with the path
/// and the system's reason (disk full, although only one checkpoint is left), and NotFinite
/// (checkpoint/finite_values.h) with a tensor that a reader would refuse.
void write_checkpoint_part(const std::filesystem::path& dir, const Stage& stage,
                           const ModelConfig& model, const CheckpointPart& part,
                           std::atomic<std::uint64_t>* written = nullptr);

/// What completing a checkpoint has done to others.
struct CheckpointNotes {
  std::vector<std::int64_t> removed;  ///< steps whose checkpoints made room on a full disk
  std::filesystem::path set_aside;    ///< what had the name step-N, of another run; empty: nothing
};

/// Director part, after every rank has written: index, source, state.json, sync, rename
/// to step-N, which note_newest() notes before; files that an unfinished attempt left there are
/// removed. Throws Error{data} naming the file, tensor or region if the parts do not hold every
/// tensor of the model once and whole, Error{internal} with the system's reason if writing fails,
/// Error{retry} soon after it was asked to stop. A run saves a step once: a complete step-N is of
/// another run, and is set aside under another name.
CheckpointNotes finish_checkpoint(const std::filesystem::path& dir, const CheckpointInfo& info,
                                  int num_parts, const ModelSource& source = {},
                                  const std::stop_token& stop = {});

/// A complete checkpoint, or a Hugging Face directory (config.json and safetensors), which counts
/// as a checkpoint of step 0 without the state of an optimizer. An adapter's directory, a
/// checkpoint or one of PEFT's, is read with the model that it names as its base. Opened and
/// checked: file sizes, safetensors headers, names and shapes against the config. The time that
/// opening takes does not depend on the size of the tensors, unless a directory holds a head beside
/// the embedding that it is tied to. Throws Error{data} that names the file and what is wrong.
class CheckpointReader {
 public:
  /// The base of an adapter is in this directory, or if none is given in the one that it names.
  static std::unique_ptr<CheckpointReader> open(const std::filesystem::path& dir,
                                                const std::filesystem::path& base = {});
  /// Opens the adapter of such a directory without its base, for stages of a model with an adapter,
  /// whose base is read elsewhere. Throws Error{data} too if the adapter does not fit the model.
  static std::unique_ptr<CheckpointReader> open_adapter(const std::filesystem::path& dir,
                                                        const ModelConfig& model);
  virtual ~CheckpointReader() = default;
  virtual const CheckpointInfo& info() const = 0;
  /// The path or name to pass to Tokenizer::open; empty if none is known.
  virtual std::string tokenizer() const = 0;
  /// Reads what checkpoints of a run that begins here are to keep.
  virtual ModelSource source() const = 0;
  /// Throws Error{data} naming the first field in which `model` differs, with both values. Only
  /// fields that decide what the weights mean count, so neither dtype nor initializer_range does.
  virtual void check_model(const ModelConfig& model) const = 0;
  /// Reads every byte and compares it with its checksum, on so many threads. Throws Error{data}
  /// naming the damaged file.
  virtual void verify(const Progress& progress = {}, int threads = 1) const = 0;
  /// Fills Parameter::region of the stage's weights (and optimizer state unless weights_only, or
  /// unless there is none) and calls weights_changed(); rows of padding are left as they are. If
  /// replicas divide the state, the weights of slices that this one does not keep are left too:
  /// DataParallel::share_weights() completes them. Reads
  /// its own bytes, or the written regions that overlap it, each compared with its checksum, a
  /// block at a time: a shard of as many as wrote reads no more than its own bytes. Several threads
  /// read a tensor each; fewer than asked for if the host's copies of what goes to a device would
  /// take too much memory. A stage without adapter gets its base's weights with the adapter added
  /// to them; the adapter of a stage stays as it is if there is none to read. Throws Error{data}
  /// naming file and tensor.
  virtual void load(Stage& stage, bool weights_only, const Progress& progress = {},
                    int threads = 1) const = 0;
  /// Does the same for the weights alone, of parameters in memory of `device` that no Stage has.
  virtual void load_weights(std::span<const Parameter> parameters, tensor::Device& device,
                            const Progress& progress = {}, int threads = 1) const = 0;
};

/// Numbers N of the complete checkpoints step-N under a run's checkpoints directory, ascending.
std::vector<std::int64_t> complete_checkpoints(const std::filesystem::path& checkpoints);

// A directory may hold checkpoints of other runs, which somebody has put there. The run's own are
// those up to the newest that it has saved, whose name the file `newest` beside them holds; without
// the file, as older versions leave it, all are the run's own.

/// Notes the newest step that the run has saved, or is about to; -1: none. Throws Error{internal}
/// with the path and the system's reason, or DiskFull.
void note_newest(const std::filesystem::path& checkpoints, std::int64_t step);
/// Whether a checkpoint of this step would be one of the run's own.
bool is_own_checkpoint(const std::filesystem::path& checkpoints, std::int64_t step);
/// complete_checkpoints() without those of other runs.
std::vector<std::int64_t> own_checkpoints(const std::filesystem::path& checkpoints);
/// Which of its own complete checkpoints a run keeps, beside step-0.
struct KeptCheckpoints {
  int newest = 1;
  int best = 0;     ///< those of the lowest loss (note_best())
  std::string set;  ///< in evaluations of what
};
/// Removes the run's other complete checkpoints, and leftovers of unfinished ones. Must not be
/// called while a checkpoint is being written there.
void prune_checkpoints(const std::filesystem::path& checkpoints, const KeptCheckpoints& kept);
/// Does, with some bytes, what saving needs of a file system, and removes what it made. Throws
/// Error{internal} with the path and the system's reason if that cannot be done there.
void try_saving(const std::filesystem::path& checkpoints);

}  // namespace troupe::stages

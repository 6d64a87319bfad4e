#include "launch/manifest/inputs/differences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launch/manifest/checks/parameter_groups.h"
#include "launch/manifest/resolve/run_spec.h"
#include "stages/corpus/token_data.h"

namespace troupe::launch {
namespace {

template <typename T>
void compare(std::vector<std::string>& out, const char* key, const T& is, const T& was) {
  if (!(is == was)) out.push_back(fmt::format("{} is {}, was {}", key, is, was));
}

/// "books 3, notes 1".
std::string weights_of(const actors::RunSpec& spec) {
  std::string out;
  for (const auto& source : spec.data.sources)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", source.name, source.weight);
  return out;
}

/// Compares the settings that decide which samples a step has. Tokenizers are compared by the
/// digest of their tokens, because a tokenizer's name is a path that may have changed.
void compare_data(const actors::RunSpec& spec, const stages::CheckpointInfo& info,
                  std::vector<std::string>& cursor) {
  compare(cursor, "batch.seq_len", spec.batch.seq_len, info.seq_len);
  const bool bytes = spec.data.tokenizer == stages::kBytesTokenizer;
  if (bytes != (info.tokenizer == stages::kBytesTokenizer))
    compare(cursor, "data.tokenizer", spec.data.tokenizer, info.tokenizer);
  if (!info.training) return;
  compare(cursor, "data.shuffle", spec.data.shuffle, info.training->shuffle);
  compare(cursor, "batch.documents", std::string(stages::name_of(spec.batch.documents)),
          info.training->documents);
  compare(cursor, "data.loss_on", std::string(stages::name_of(spec.data.loss_on)),
          info.training->loss_on);
  if (spec.data.shuffle && info.training->shuffle)
    compare(cursor, "run.seed", spec.seed, info.training->seed);
  const bool is_mix = !spec.data.sources.front().name.empty();
  const bool known = !spec.data.digest.empty() && !info.training->digest.empty();
  if (!known || spec.data.digest == info.training->digest) return;
  cursor.push_back(
      fmt::format("{} (XXH64 {}, was {}){}",
                  is_mix ? "data.mix has other tokens or weights" : "data.files hold other tokens",
                  spec.data.digest, info.training->digest,
                  is_mix ? ", its weights are now " + weights_of(spec) : ""));
}

/// Compares the settings that change how a step trains, but not its samples.
void compare_training(const actors::RunSpec& spec, const stages::CheckpointInfo& info,
                      std::vector<std::string>& told) {
  compare(told, "model.dtype", tensor::name_of(spec.model.dtype),
          tensor::name_of(info.model.dtype));
  if (!info.training) {
    told.push_back("the checkpoint does not say on which corpus, seed and batch it was trained");
    return;
  }
  if (!spec.data.shuffle || !info.training->shuffle)
    compare(told, "run.seed", spec.seed, info.training->seed);
  if (const auto frozen = compare_frozen(spec.model, info.trained_model()).frozen; !frozen.empty())
    told.push_back(fmt::format("frozen from now on: {}", fmt::join(frozen, ", ")));
  compare(told, "batch.global", spec.batch.global, info.training->global);
  const double lr = stages::learning_rate(spec.optimizer, info.step);
  if (info.step > 0 && lr != info.training->lr)
    told.push_back(
        fmt::format("step {} had a learning rate of {:.3g}, the settings of now give it {:.3g}",
                    info.step, info.training->lr, lr));
}

}  // namespace

std::vector<std::string> Differences::all() const {
  std::vector<std::string> both = cursor;
  both.insert(both.end(), told.begin(), told.end());
  return both;
}

Differences differences(const Manifest& manifest, const stages::CheckpointInfo& info) {
  const actors::RunSpec spec = to_run_spec(manifest);
  Differences found;
  compare_data(spec, info, info.next_sample > 0 ? found.cursor : found.told);
  compare_training(spec, info, found.told);
  return found;
}

std::string dead_steps_warning(const actors::RunSpec& spec) {
  const stages::OptimizerConfig& o = spec.optimizer;
  const std::int64_t end = o.warmup_steps + o.decay_steps;
  const bool counts_on = o.decay == stages::Decay::linear || o.decay == stages::Decay::cosine;
  if (!counts_on || o.min_lr > 0 || o.lr == 0 || end + 1 >= spec.max_steps) return "";
  return fmt::format(
      "the learning rate is 0 from step {} on: the last of {} steps train nothing. Take "
      "optimizer.decay_steps = {}, or an optimizer.min_lr above 0",
      end, spec.max_steps, spec.max_steps - o.warmup_steps);
}

void check_cursor(const Manifest& m, const stages::CheckpointInfo& info) {
  const Differences found = differences(m, info);
  if (found.cursor.empty() || m->other_data) return;
  m.fail_as(ErrorKind::data, m->checkpoint.resume,
            "the checkpoint of step {} counts its samples, {} so far, in other data: {}. Go on "
            "with its data; or start a new run from its weights, with checkpoint.weights_only = "
            "true; or go on counting in the new data, with checkpoint.other_data = true",
            info.step, info.next_sample, fmt::join(found.cursor, "; "));
}

void check_released(const Manifest& m, const stages::CheckpointInfo& info) {
  const auto released = compare_frozen(m->model, info.trained_model()).released;
  if (released.empty()) return;
  m.fail_as(ErrorKind::data, m->checkpoint.resume,
            "{} {} frozen up to step {}, so the checkpoint has no moments of {}. Freeze {} by an "
            "optimizer.group as before, or start from the weights alone with "
            "checkpoint.weights_only = true",
            fmt::join(released, ", "), released.size() == 1 ? "was" : "were", info.step,
            released.size() == 1 ? "it" : "them", released.size() == 1 ? "it" : "them");
}

}  // namespace troupe::launch

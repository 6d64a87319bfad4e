#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "actors/topology/stage_devices.h"
#include "launch/host/suggest.h"
#include "launch/manifest/checks/check.h"
#include "launch/manifest/resolve/run_spec.h"
#include "stages/corpus/chat/chat_date.h"
#include "stages/corpus/text/record.h"

namespace troupe::launch {
namespace {

/// The most sources of a run: each takes part in every vote on a step.
constexpr std::ptrdiff_t kMaxSources = 256;
/// The most evaluation sets: a rank keeps memory for a batch of each.
constexpr std::ptrdiff_t kMaxSets = 16;

/// Checks the tables of a list, each of which names text.
/// @param what one of them is called in messages
template <typename Row>
void check_rows(const Manifest& m, const std::vector<Row>& rows, const char* what,
                std::ptrdiff_t max) {
  const std::string key = m.key_of(rows).full_name();
  if (std::ssize(rows) > max)
    m.fail(rows, "{} has {} {}s, at most {}", key, rows.size(), what, max);
  std::set<std::string> names;
  for (const Row& row : rows) {
    if (row.files.empty())
      m.fail(rows, "a {} of {} has no files{}; name the text to read", what, key,
             row.name.empty() ? "" : ": " + row.name);
    if (!names.insert(row.name).second)
      m.fail(rows, "two {}s of {} are named '{}'; give them a name each", what, key, row.name);
  }
}

void check_rules(const Manifest& m) {
  const auto& [fields, on_bad_line, date, bos, end_of_document] = m->data.rules;
  constexpr auto& kKnown = stages::kRecordFields;
  for (const auto& [name, theirs] : fields)
    if (std::ranges::find(kKnown, name) == kKnown.end())
      m.fail(fields, "data.fields maps '{}', which is none of {}; did you mean '{}'?", name,
             quoted_list(kKnown), nearest(name, kKnown));
  if (!date.empty()) m.about(date, [&] { stages::begin_of_day(date); });
}

void check_evaluation(const Manifest& m) {
  const auto& [interval, steps, sets, keeps_gradients] = m->eval;
  const bool has_files = !m->eval_text.files.empty(), has_sets = !sets.empty();
  if (has_files && has_sets)
    m.fail(sets, "eval.files and eval.set are both given; take one of them");
  check_rows(m, sets, "set", kMaxSets);
  if (interval > 0 && !has_files && !has_sets)
    m.fail(interval,
           "eval.interval = {} needs eval.files, the text to evaluate on, or several [[eval.set]]",
           interval);
  if (interval == 0 && m->checkpoint.keep_best > 0)
    m.fail(m->checkpoint.keep_best,
           "checkpoint.keep_best = {} compares losses of evaluations, but eval.interval = 0: there "
           "are none; give an interval at which checkpoints are saved too",
           m->checkpoint.keep_best);
  if (keeps_gradients) return;
  if (interval == 0)
    m.fail(keeps_gradients,
           "eval.keep_gradients = false is about evaluations, but eval.interval = 0: there are "
           "none; leave it out, or give an interval");
  if (actors::uses_gpus(to_run_spec(m)))
    m.fail(keeps_gradients,
           "eval.keep_gradients = false gives memory of the machine back, but the gradients are in "
           "the memory of GPUs (cluster.device = 'cuda'), which keep it; leave it out");
}

}  // namespace

void check_data(const Manifest& m) {
  const std::vector<Source>& sources = m->data.sources;
  const std::vector<std::string>& files = m->text.files;
  if (!files.empty() && !sources.empty())
    m.fail(sources, "data.files and data.mix are both given; take one of them");
  if (files.empty() && sources.empty())
    m.fail(files,
           "data.files must name the text to train on: files = [\"corpus/*.txt\"], or [[data.mix]] "
           "several sources");
  check_rows(m, sources, "source", kMaxSources);
  if (m->data.loss_on == stages::LossOn::response &&
      m->batch.documents == stages::Documents::joined)
    m.fail(m->data.loss_on,
           "data.loss_on = 'response' needs samples that are documents, each with its prompt, but "
           "batch.documents = 'joined'; take 'packed' or 'padded'");
  check_rules(m);
  check_evaluation(m);
}

}  // namespace troupe::launch

#include "launch/manifest/checks/data_check.h"

#include <fmt/format.h>

#include <set>
#include <string>

namespace troupe::launch {
namespace {

/// The most sources of a run: each takes part in every vote on a step.
constexpr std::ptrdiff_t kMaxSources = 256;
/// The most evaluation sets: a rank keeps memory for a batch of each.
constexpr std::ptrdiff_t kMaxSets = 16;

/// Checks the tables of a list, each of which names text.
/// @param what one of them is called in messages
template <typename Row>
void check_rows(const Manifest& m, const char* key, const char* what, const std::vector<Row>& rows,
                std::ptrdiff_t max) {
  if (std::ssize(rows) > max)
    m.fail(key, fmt::format("{} has {} {}s, at most {}", key, rows.size(), what, max));
  std::set<std::string> names;
  for (const Row& row : rows) {
    if (row.files.empty())
      m.fail(key, fmt::format("a {} of {} has no files{}; name the text to read", what, key,
                              row.name.empty() ? "" : ": " + row.name));
    if (!names.insert(row.name).second)
      m.fail(key, fmt::format("two {}s of {} are named '{}'; give them a name each", what, key,
                              row.name));
  }
}

void check_evaluation(const Manifest& m) {
  const bool has_files = !m.texts("eval.files").empty(), has_sets = !m.eval_sets().empty();
  if (has_files && has_sets)
    m.fail("eval.set", "eval.files and eval.set are both given; take one of them");
  check_rows(m, "eval.set", "set", m.eval_sets(), kMaxSets);
  const std::int64_t interval = m.integer("eval.interval");
  if (interval > 0 && !has_files && !has_sets)
    m.fail("eval.interval",
           fmt::format("eval.interval = {} needs eval.files, the text to evaluate on, or several "
                       "[[eval.set]]",
                       interval));
  if (interval == 0 && m.integer("checkpoint.keep_best") > 0)
    m.fail("checkpoint.keep_best",
           fmt::format("checkpoint.keep_best = {} compares losses of evaluations, but "
                       "eval.interval = 0: there are none; give an interval at which checkpoints "
                       "are saved too",
                       m.integer("checkpoint.keep_best")));
}

}  // namespace

void check_data(const Manifest& m) {
  const bool has_files = !m.texts("data.files").empty();
  if (has_files && !m.mix().empty())
    m.fail("data.mix", "data.files and data.mix are both given; take one of them");
  if (!has_files && m.mix().empty())
    m.fail("data.files",
           "data.files must name the text to train on: files = [\"corpus/*.txt\"], or "
           "[[data.mix]] several sources");
  check_rows(m, "data.mix", "source", m.mix(), kMaxSources);
  if (m.text("data.loss_on") == "response" && m.text("batch.documents") == "joined")
    m.fail("data.loss_on",
           "data.loss_on = 'response' needs samples that are documents, each with its prompt, but "
           "batch.documents = 'joined'; take 'packed' or 'padded'");
  check_evaluation(m);
  if (m.flag("eval.keep_gradients")) return;
  if (m.integer("eval.interval") == 0)
    m.fail("eval.keep_gradients",
           "eval.keep_gradients = false is about evaluations, but eval.interval = 0: there are "
           "none; leave it out, or give an interval");
  if (m.text("cluster.device") == "cuda")
    m.fail("eval.keep_gradients",
           "eval.keep_gradients = false gives memory of the machine back, but the gradients are in "
           "the memory of GPUs (cluster.device = 'cuda'), which keep it; leave it out");
}

}  // namespace troupe::launch

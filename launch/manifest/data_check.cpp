#include "launch/manifest/data_check.h"

#include <fmt/format.h>

#include <set>
#include <string>

namespace troupe::launch {
namespace {

/// The most sources of a run: each takes part in every vote on a step.
constexpr std::ptrdiff_t kMaxSources = 256;

void check_mix(const Manifest& m) {
  const Mix& mix = m.mix();
  if (std::ssize(mix) > kMaxSources)
    m.fail("data.mix", fmt::format("data.mix has {} sources, at most {}", mix.size(), kMaxSources));
  std::set<std::string> names;
  for (const MixSource& source : mix) {
    if (source.files.empty())
      m.fail("data.mix", fmt::format("a source of data.mix has no files{}; name the text to read",
                                     source.name.empty() ? "" : ": " + source.name));
    if (!names.insert(source.name).second)
      m.fail("data.mix",
             fmt::format("two sources of data.mix are named '{}'; give them a name each",
                         source.name));
  }
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
  check_mix(m);
  if (m.text("data.loss_on") == "response" && m.text("batch.documents") == "joined")
    m.fail("data.loss_on",
           "data.loss_on = 'response' needs samples that are documents, each with its prompt, but "
           "batch.documents = 'joined'; take 'packed' or 'padded'");
  if (m.integer("eval.interval") > 0 && m.texts("eval.files").empty())
    m.fail("eval.interval",
           fmt::format("eval.interval = {} needs eval.files, the text to evaluate on",
                       m.integer("eval.interval")));
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

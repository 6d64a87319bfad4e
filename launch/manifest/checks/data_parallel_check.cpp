#include <fmt/format.h>

#include <algorithm>

#include "launch/manifest/checks/check.h"
#include "launch/manifest/resolve/run_spec.h"

namespace troupe::launch {
namespace {

using stages::StateDivision;

void check_instances(const Manifest& m, Purpose purpose) {
  const int& count = m->data_parallel.instances;
  const int dp = to_run_spec(m).mesh.dp;
  if (count == 1) return;
  if (m->data_parallel.division == StateDivision::none)
    m.fail(count,
           "data_parallel.num_optimizer_instances = {} means nothing with data_parallel.sharding = "
           "'none', where each replica has all state; leave it out, or take sharding = 'optim'",
           count);
  // After a loss fewer replicas go on, in as many instances as they can form.
  if (purpose == Purpose::resume || (dp % count == 0 && dp / count >= 2)) return;
  int nearest = std::min(count, dp / 2);
  while (nearest > 1 && dp % nearest != 0) --nearest;
  m.fail(count,
         "data_parallel.num_optimizer_instances = {} cannot form instances of at least two of the "
         "mesh.dp = {} replicas; nearest: {}",
         count, dp, nearest);
}

/// Keys of [data_parallel] that mean nothing under the chosen sharding.
void check_keys_of_sharding(const Manifest& m) {
  const stages::DataParallelSpec& spec = m->data_parallel;
  const std::string sharding = m.text(spec.division);
  if (!spec.divides_weights())
    refuse_choices(
        m, {&m.key_of(spec.prefetch), &m.key_of(spec.reshards)},
        fmt::format("is about weights that replicas divide, but data_parallel.sharding = '{}' "
                    "keeps them whole; leave it out, or take sharding = 'optim_grads_params'",
                    sharding));
  else
    refuse_choices(
        m, {&m.key_of(spec.buckets.size), &m.key_of(spec.buckets.count)},
        "means nothing with data_parallel.sharding = 'optim_grads_params', whose buckets are the "
        "units that are gathered: embedding, each layer, norm and head; leave it out");
  const bool keeps_gradients = spec.division < StateDivision::optim_grads;
  if (m->reduce_every == Settings::ReduceEvery::microbatch && keeps_gradients)
    m.fail(m->reduce_every,
           "data_parallel.reduce_every = 'microbatch' saves the memory of whole gradients, but "
           "data_parallel.sharding = '{}' keeps them whole; nearest: 'step', or sharding = "
           "'optim_grads'",
           sharding);
}

void check_sharding_of_state(const Manifest& m, Purpose purpose) {
  const stages::DataParallelSpec& spec = m->data_parallel;
  check_keys_of_sharding(m);
  check_instances(m, purpose);
  if (spec.division == StateDivision::none) {
    if (!spec.overlaps_gather)
      m.fail(spec.overlaps_gather,
             "data_parallel.overlap_param_gather = false means nothing with data_parallel.sharding "
             "= 'none', where every replica updates all weights itself; leave it out");
    return;
  }
  if (to_run_spec(m).mesh.dp == 1 && purpose == Purpose::launch)
    m.fail(spec.division,
           "data_parallel.sharding = '{}' divides the training state among the replicas, but "
           "mesh.dp = 1 leaves nothing to shard over; nearest: dp = 2, "
           "or sharding = 'none'",
           m.text(spec.division));
  if (spec.repairs && !m->recovery.neighbour_copies && spec.instances == 1)
    m.fail(spec.repairs,
           "data_parallel.on_difference = 'repair' means nothing with data_parallel.sharding = "
           "'{}' and recovery.neighbour_copies = false, where each slice has one owner, so that "
           "nothing can differ; leave it out",
           m.text(spec.division));
}

void check_buckets(const Manifest& m) {
  const auto& [size, count] = m->data_parallel.buckets;
  if (count == 0) return;
  if (!m.is_default(m.key_of(size)))
    m.fail(count,
           "data_parallel.num_buckets = {} and data_parallel.bucket_size = {} both say how "
           "gradients are cut; leave one of the two out",
           count, size);
  const auto parameters = std::ssize(stages::parameters_of(m->model));
  if (count > parameters)
    m.fail(count,
           "data_parallel.num_buckets = {}, but a bucket holds whole parameters, and the model has "
           "{}; at most {}",
           count, parameters, parameters);
}

}  // namespace

void check_data_parallel(const Manifest& m, Purpose purpose) {
  check_buckets(m);
  check_sharding_of_state(m, purpose);
}

}  // namespace troupe::launch

#include "launch/manifest/checks/data_parallel_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/manifest/keys/defaults.h"
#include "launch/manifest/resolve/run_spec.h"
#include "launch/manifest/toml/toml_values.h"
#include "stages/model/model_config.h"

namespace troupe::launch {
namespace {

void check_instances(const Manifest& m, Purpose purpose) {
  const std::int64_t count = m.integer("data_parallel.num_optimizer_instances");
  const std::int64_t dp = m.integer("mesh.dp");
  if (count == 1) return;
  if (m.text("data_parallel.sharding") == "none")
    m.fail("data_parallel.num_optimizer_instances",
           fmt::format("data_parallel.num_optimizer_instances = {} means nothing with "
                       "data_parallel.sharding = 'none', where each replica has all state; leave "
                       "it out, or take sharding = 'optim'",
                       count));
  // After a loss fewer replicas go on, in as many instances as they can form.
  if (purpose == Purpose::resume || (dp % count == 0 && dp / count >= 2)) return;
  std::int64_t nearest = std::min(count, dp / 2);
  while (nearest > 1 && dp % nearest != 0) --nearest;
  m.fail("data_parallel.num_optimizer_instances",
         fmt::format("data_parallel.num_optimizer_instances = {} cannot form instances of at least "
                     "two of the mesh.dp = {} replicas; nearest: {}",
                     count, dp, nearest));
}

/// Keys of [data_parallel] that mean nothing under the chosen sharding.
void check_keys_of_sharding(const Manifest& m) {
  const std::string& sharding = m.text("data_parallel.sharding");
  const bool divides_weights = sharding == "optim_grads_params";
  const auto differs = [&](std::string_view name) {
    return to_toml(m.value(fmt::format("data_parallel.{}", name))) !=
           find_key("data_parallel", name)->fallback;
  };
  for (const std::string_view name : {"prefetch", "reshard_after_forward"}) {
    const std::string key = fmt::format("data_parallel.{}", name);
    if (differs(name) && !divides_weights)
      m.fail(key, fmt::format("{} = {} is about weights that replicas divide, but "
                              "data_parallel.sharding = '{}' keeps them whole; leave it out, or "
                              "take sharding = 'optim_grads_params'",
                              key, to_toml(m.value(key)), sharding));
  }
  for (const std::string_view name : {"bucket_size", "num_buckets"}) {
    const std::string key = fmt::format("data_parallel.{}", name);
    if (differs(name) && divides_weights)
      m.fail(key, fmt::format("{} = {} means nothing with data_parallel.sharding = "
                              "'optim_grads_params', whose buckets are the units that are "
                              "gathered: embedding, each layer, norm and head; leave it out",
                              key, to_toml(m.value(key))));
  }
  const bool keeps_gradients = sharding == "none" || sharding == "optim";
  if (m.text("data_parallel.reduce_every") == "microbatch" && keeps_gradients)
    m.fail("data_parallel.reduce_every",
           fmt::format("data_parallel.reduce_every = 'microbatch' saves the memory of whole "
                       "gradients, but data_parallel.sharding = '{}' keeps them whole; nearest: "
                       "'step', or sharding = 'optim_grads'",
                       sharding));
}

void check_sharding_of_state(const Manifest& m, Purpose purpose) {
  const std::string& sharding = m.text("data_parallel.sharding");
  check_keys_of_sharding(m);
  check_instances(m, purpose);
  if (sharding == "none") {
    if (!m.flag("data_parallel.overlap_param_gather"))
      m.fail("data_parallel.overlap_param_gather",
             "data_parallel.overlap_param_gather = false means nothing with data_parallel.sharding "
             "= 'none', where every replica updates all weights itself; leave it out");
    return;
  }
  if (m.integer("mesh.dp") == 1 && purpose == Purpose::launch)
    m.fail("data_parallel.sharding",
           fmt::format("data_parallel.sharding = '{}' divides the training state among the "
                       "replicas, but mesh.dp = 1 leaves nothing to shard over; nearest: dp = 2, "
                       "or sharding = 'none'",
                       sharding));
  const bool has_copies =
      m.flag("recovery.neighbour_copies") || m.integer("data_parallel.num_optimizer_instances") > 1;
  if (m.text("data_parallel.on_difference") != "stop" && !has_copies)
    m.fail("data_parallel.on_difference",
           fmt::format("data_parallel.on_difference = 'repair' means nothing with "
                       "data_parallel.sharding = '{}' and recovery.neighbour_copies = false, where "
                       "each slice has one owner, so that nothing can differ; leave it out",
                       sharding));
}

void check_buckets(const Manifest& m) {
  const std::int64_t count = m.integer("data_parallel.num_buckets");
  if (count == 0) return;
  const std::string size = to_toml(m.value("data_parallel.bucket_size"));
  if (size != find_key("data_parallel", "bucket_size")->fallback)
    m.fail("data_parallel.num_buckets",
           fmt::format("data_parallel.num_buckets = {} and data_parallel.bucket_size = {} both say "
                       "how gradients are cut; leave one of the two out",
                       count, size));
  const auto parameters = std::ssize(stages::parameters_of(to_run_spec(m).model));
  if (count > parameters)
    m.fail("data_parallel.num_buckets",
           fmt::format("data_parallel.num_buckets = {}, but a bucket holds whole parameters, and "
                       "the model has {}; at most {}",
                       count, parameters, parameters));
}

}  // namespace

void check_data_parallel(const Manifest& m, Purpose purpose) {
  check_buckets(m);
  check_sharding_of_state(m, purpose);
}

}  // namespace troupe::launch

#include "launch/manifest/resolve/run_spec.h"

#include "launch/host/host_list.h"

namespace troupe::launch {

actors::RunSpec to_run_spec(const Manifest& m) {
  actors::RunSpec spec = *m;
  if (spec.checkpoint.resume.empty()) {
    spec.checkpoint.resume = m->model_from;
    spec.checkpoint.weights_only = true;
  }
  if (spec.data.sources.empty()) spec.data.sources = {m->text};
  if (!m->eval_text.files.empty()) spec.eval.sets.push_back(m->eval_text);
  spec.optimizer.beta1 = m->betas[0];
  spec.optimizer.beta2 = m->betas[1];
  spec.optimizer.max_steps = spec.max_steps;
  if (spec.mesh.tp == 1) spec.mesh.sequence_parallel = false;
  if (spec.data_parallel.buckets.count > 0) spec.data_parallel.buckets.size = 0;
  spec.data_parallel.every_microbatch = m->reduce_every != Settings::ReduceEvery::step;
  // What the user did not choose follows from the cores that are free when ranks start.
  if (!m.given(m->cluster.pin)) spec.cluster.pin.reset();
  if (!m.given(m->cluster.spin)) spec.cluster.spin.reset();
  if (!m->hosts.empty())
    spec.cluster.hosts =
        parse_hosts(m->hosts, m.where(m->hosts) + ": cluster.hosts", ErrorKind::manifest);
  // A clock decides between near-equals differently each time, and so would give another run of the
  // same manifest other bits.
  tensor::DeviceSpec& device = spec.cluster.device;
  if (device.kind == tensor::DeviceKind::cuda && !device.deterministic)
    device.tuning = spec.dir + "/" + kTuningFile;
  return spec;
}

actors::RunSpec parse_resolved(const std::string& text) {
  const Manifest manifest = Manifest::parse(text, "manifest", {});
  for (const Key& key : manifest_keys())
    if (!manifest.has(key))
      throw Error(ErrorKind::manifest,
                  "manifest: no resolved manifest, " + key.full_name() + " is missing");
  return to_run_spec(manifest);
}

}  // namespace troupe::launch

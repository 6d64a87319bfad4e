#include "launch/manifest/inputs/inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "actors/topology/shape_rules.h"
#include "actors/topology/stage_devices.h"
#include "launch/manifest/checks/check.h"
#include "launch/manifest/inputs/corpus.h"
#include "launch/manifest/inputs/differences.h"
#include "launch/manifest/resolve/adapter.h"
#include "launch/manifest/resolve/model_source.h"
#include "launch/manifest/resolve/resolve.h"
#include "launch/manifest/resolve/run_spec.h"
#include "tensor/libraries/gpu_choice.h"

namespace troupe::launch {
namespace {

void check_steps_left(const Manifest& m, const stages::CheckpointInfo& info) {
  const std::int64_t max_steps = m->max_steps;
  if (info.step >= max_steps)
    m.fail(m->max_steps,
           "run.max_steps = {} counts from the first start, and checkpoint.resume is of step {}; "
           "at least {}",
           m->max_steps, info.step, info.step + 1);
}

/// Refuses a whole model for a run with an adapter, and an adapter for a run without.
void check_kind_of_state(const Manifest& m, const stages::CheckpointInfo& info) {
  const std::string& resume = m->checkpoint.resume;
  if (m->model.adapter && !info.adapter)
    m.fail_as(
        ErrorKind::data, resume,
        "{} holds a whole model, but the run trains an adapter; name the model in model.from, "
        "in the place of checkpoint.resume",
        resume);
  if (!m->model.adapter && info.adapter && !m->checkpoint.weights_only)
    m.fail_as(
        ErrorKind::data, resume,
        "{} holds an adapter of {}; train it with [adapter] and model.from, or begin with both "
        "merged, with checkpoint.weights_only = true",
        resume, info.adapter->base);
}

bool asks_for_cuda(const Manifest& manifest) {
  return actors::uses_gpus(to_run_spec(manifest));
}

}  // namespace

Manifest completed(Manifest manifest, const Machine& machine, Purpose purpose) {
  resolve(manifest, machine);
  check(manifest, purpose);
  check_corpus(manifest);
  return manifest;
}

Manifest load_manifest(const std::filesystem::path& path, const std::vector<std::string>& overrides,
                       const Machine& machine, Purpose purpose) {
  return completed(Manifest::read(path, overrides), machine, purpose);
}

Manifest manifest_of_model(const std::filesystem::path& model,
                           const std::vector<std::string>& files,
                           const std::vector<std::string>& overrides, const Machine& machine) {
  const auto whole = (std::filesystem::absolute(model) / "").lexically_normal().parent_path();
  const std::string name = whole.filename().string(), from = "--from " + model.string();
  Manifest manifest = Manifest::parse("", name, overrides);
  const auto set = [&](const auto& member, Value value, const std::string& option) {
    if (!manifest.given(member))
      manifest.override_with(manifest.key_of(member), std::move(value), option);
  };
  set(manifest->name, name, from);
  set(manifest->model_from, whole.string(), from);
  set(manifest->text.files, files, fmt::format("--data {}", fmt::join(files, " ")));
  return completed(std::move(manifest), machine);
}

std::optional<stages::CheckpointInfo> check_start(const Manifest& m,
                                                  const stages::Progress& progress, int threads) {
  const bool is_new = m->checkpoint.resume.empty();
  const std::string& fresh = m->adapter_from.empty() ? m->model_from : m->adapter_from;
  const std::string& path = is_new ? fresh : m->checkpoint.resume;
  if (path.empty()) return std::nullopt;
  const auto checkpoint =
      m.about(path, [&] { return stages::CheckpointReader::open(path, base_of(*m)); });
  m.about(path, [&] { checkpoint->verify(progress, threads); });
  if (!is_new) check_kind_of_state(m, checkpoint->info());
  if (is_new || m->checkpoint.weights_only) {
    m.about(path, [&] { checkpoint->check_model(m->model); });
    return std::nullopt;
  }
  check_fits(m, *checkpoint);
  return checkpoint->info();
}

void check_fits(const Manifest& m, const stages::CheckpointReader& checkpoint) {
  check_kind_of_state(m, checkpoint.info());
  m.about(m->checkpoint.resume, [&] { checkpoint.check_model(m->model); });
  check_cursor(m, checkpoint.info());
  check_released(m, checkpoint.info());
  check_steps_left(m, checkpoint.info());
}

void look_for_gpus(const Manifest& manifest, Machine& machine) {
  if (!asks_for_cuda(manifest)) return;
  machine.gpus = own_gpus();
}

void require_gpu(const Manifest& manifest, const Machine& machine) {
  if (!asks_for_cuda(manifest)) return;
  if (const std::string& fault = machine.gpus->fault; !fault.empty()) {
    if (manifest->cluster.device.kind == tensor::DeviceKind::cpu)
      manifest.fail_as(ErrorKind::unavailable, manifest->stages, "[[stage]] device = 'cuda': {}",
                       fault);
    manifest.fail_as(ErrorKind::unavailable, manifest->cluster.device.kind,
                     "cluster.device = 'cuda': {}", fault);
  }
  order_of_gpus(manifest, machine);
}

std::vector<int> order_of_gpus(const Manifest& manifest, const Machine& machine) {
  const std::vector<std::string>& chosen = manifest->cluster.gpus;
  if (!machine.gpus || machine.gpus->devices.empty()) return {};
  // CUDA shows a process no more than one instance, so that the worker looks for its own.
  if (std::ranges::any_of(chosen, tensor::is_gpu_instance)) return {};
  return manifest.about(chosen,
                        [&] { return tensor::gpus_in_order(machine.gpus->devices, chosen); });
}

actors::RunSpec to_run_spec(const Manifest& manifest, const Machine& machine) {
  actors::RunSpec spec = to_run_spec(manifest);
  std::size_t most = 0;
  for (const int gpu : order_of_gpus(manifest, machine))
    most = std::max(most, machine.gpus->devices[static_cast<std::size_t>(gpu)].context_bytes);
  if (most > 0) spec.cluster.context_bytes = static_cast<std::int64_t>(most);
  return spec;
}

}  // namespace troupe::launch

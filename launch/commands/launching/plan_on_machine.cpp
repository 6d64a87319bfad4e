#include "launch/commands/launching/plan_on_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "launch/commands/launching/best_layout.h"
#include "launch/host/console.h"
#include "launch/host/quantities.h"
#include "launch/manifest/inputs/inputs.h"
#include "launch/manifest/inputs/work.h"
#include "launch/manifest/resolve/run_spec.h"
#include "launch/planner/search.h"
#include "launch/report/run_prediction.h"
#include "launch/run/result_file.h"
#include "launch/run/run_directory.h"
#include "schedules/planner/inference_prediction.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

/// Gives the manifest as many replicas as make up the devices.
void set_devices(Manifest& manifest, int devices) {
  const int of_replica = manifest->mesh.tp * manifest->mesh.pp;
  if (devices % of_replica != 0) {
    const int low = devices / of_replica * of_replica;
    refuse(
        fmt::format("--devices {} is no multiple of mesh.tp * mesh.pp = {} * {} = {}; nearest: "
                    "{}{}",
                    devices, manifest->mesh.tp, manifest->mesh.pp, of_replica,
                    low > 0 ? fmt::format("{} or ", low) : "", low + of_replica));
  }
  manifest.override_with(manifest.key_of(manifest->mesh.dp), std::int64_t{devices / of_replica},
                         fmt::format("--devices {}", devices));
}

int predict_step(const PlanOptions& options, const Manifest& manifest,
                 const MachineDescription& machine) {
  const actors::RunSpec spec = on_machine(to_run_spec(manifest), machine.model);
  const Prediction prediction = predict(spec, machine.model);
  for (const std::string& warning : layout_warnings(spec, prediction, machine.model))
    print_error("warning: " + warning);
  const auto measured = measured_steps(read_metrics(std::filesystem::path(spec.dir) / kMetricsFile),
                                       spec.num_ranks());
  if (options.json) {
    json out{{"machine", machine.name}, {"predicted", to_json(prediction)}};
    if (measured) out["measured"] = to_json(*measured);
    print(out.dump(2) + "\n");
  } else {
    print(to_text(prediction, machine) +
          (measured ? "\n" + to_text(compared(prediction, *measured), *measured) : ""));
  }
  return 0;
}

/// The devices that a search divides: so many as are asked for, or of a manifest with mesh.auto as
/// its hosts have slots, or one host of the machine has.
int devices_of_search(const PlanOptions& options, const Manifest& manifest,
                      const MachineDescription& machine) {
  if (options.devices > 0) return options.devices;
  const actors::RunSpec spec = to_run_spec(manifest);
  if (!manifest->auto_mesh) return spec.mesh.num_ranks();
  if (!spec.cluster.hosts.empty()) return devices_at_hand(manifest, spec.cluster.hosts, {});
  return static_cast<int>(machine.model.host.devices);
}

int search_layout(const PlanOptions& options, const Manifest& manifest,
                  const MachineDescription& machine) {
  const SearchResult result =
      search(manifest, machine, devices_of_search(options, manifest, machine), options.top);
  if (!options.output.empty())
    ResultFile(options.output)
        .write(with_layout(manifest, result.layouts.front().layout).to_toml(Manifest::Keys::given));
  if (options.json)
    print(json{{"machine", machine.name}, {"search", to_json(result)}}.dump(2) + "\n");
  else
    print(to_table(result));
  return 0;
}

Manifest with_found_layout(const PlanOptions& options, const Manifest& manifest,
                           const MachineDescription& machine) {
  return manifest.about(manifest->auto_mesh, [&] {
    const int devices = devices_of_search(options, manifest, machine);
    return with_layout(manifest, search(manifest, machine, devices, 1).layouts.front().layout);
  });
}

int predict_serving(const PlanOptions& options, const Manifest& manifest,
                    const MachineDescription& machine) {
  const actors::RunSpec spec = to_run_spec(manifest);
  const std::int64_t context = options.context > 0 ? options.context : spec.batch.seq_len;
  const auto [weights, cache, prefill, token, rate] =
      schedules::predict_inference(work_of(spec), options.batch, context, machine.model);
  const auto room = std::llround(machine.model.device.memory_gib * (std::int64_t{1} << 30));
  const bool fits = weights + cache <= room;
  if (options.json) {
    print(json{{"machine", machine.name},
               {"inference",
                {{"weights_bytes", weights},
                 {"kv_cache_bytes", cache},
                 {"fits", fits},
                 {"prefill_s", prefill},
                 {"token_s", token},
                 {"decode_tokens_per_s", rate}}}}
              .dump(2) +
          "\n");
    return 0;
  }
  print(fmt::format(
      "{} sequences of {} tokens on {} devices of {}:\n"
      "  memory      {:>10}   weights, and {} of keys and values; a device has {}: {}\n"
      "  prefill     {:>10}   until each has a first token\n"
      "  decoding    {:>10}   a token of each; {} tokens/s\n",
      options.batch, context, spec.mesh.ranks_of_replica(), machine.name, bytes_text(weights),
      bytes_text(cache), bytes_text(room), fits ? "fits" : "does not fit", span_text(prefill),
      span_text(token), grouped(std::llround(rate))));
  return 0;
}

}  // namespace

int plan_on_machine(const PlanOptions& options) {
  const MachineDescription machine = describe_machine(options.machine);
  Manifest manifest = Manifest::read(options.manifest, options.overrides);
  if (options.devices > 0 && !options.search && !manifest->auto_mesh)
    set_devices(manifest, options.devices);
  manifest = completed(std::move(manifest), this_machine());
  if (options.search) return search_layout(options, manifest, machine);
  if (manifest->auto_mesh) manifest = with_found_layout(options, manifest, machine);
  if (options.inference) return predict_serving(options, manifest, machine);
  return predict_step(options, manifest, machine);
}

}  // namespace troupe::launch

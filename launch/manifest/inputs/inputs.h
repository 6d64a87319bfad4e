#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/topology/run_spec.h"
#include "launch/host/machine.h"
#include "launch/manifest/checks/check.h"
#include "launch/manifest/toml/manifest.h"
#include "stages/files/checkpoint/checkpoint.h"

namespace troupe::launch {

/// Reads, resolves and checks a manifest and the text that it names.
Manifest load_manifest(const std::filesystem::path& path, const std::vector<std::string>& overrides,
                       const Machine& machine, Purpose purpose = Purpose::launch);

/// Resolves and checks a manifest that was read, and the text that it names.
Manifest completed(Manifest manifest, const Machine& machine, Purpose purpose = Purpose::launch);

/// The manifest of a run that trains the model in a directory on these files, with overrides for
/// everything else. Its name is the directory's.
Manifest manifest_of_model(const std::filesystem::path& model,
                           const std::vector<std::string>& files,
                           const std::vector<std::string>& overrides, const Machine& machine);

/// Opens checkpoint.resume, or else model.from, if one is set, compares it with the manifest and
/// reads every byte that has a checksum, on so many threads. Returns the checkpoint's state that
/// the run continues: none without a checkpoint, from model.from and with checkpoint.weights_only.
/// Throws Error{data} naming what differs or is damaged, or Error{manifest} if no steps are left.
std::optional<stages::CheckpointInfo> check_start(const Manifest& manifest,
                                                  const stages::Progress& progress = {},
                                                  int threads = 1);

/// Checks that the run can continue from this checkpoint: same model, same data, steps left to do.
/// Throws Error{data} naming what differs, or Error{manifest} if no steps are left.
void check_fits(const Manifest& manifest, const stages::CheckpointReader& checkpoint);

/// Sets `machine.gpus` to own_gpus() if the manifest asks for CUDA. Throws Error{manifest} if its
/// mesh is not possible on what is there.
void look_for_gpus(const Manifest& manifest, Machine& machine);

/// Throws Error{unavailable} if the manifest asks for CUDA and this machine has no GPU that can be
/// used. look_for_gpus() has been called.
void require_gpu(const Manifest& manifest, const Machine& machine);

/// The numbers of the GPUs that ranks take by turns. Empty if that is not known: the machine has
/// none, or nobody asked, or the manifest chooses instances of GPUs. Throws Error{unavailable} for
/// a GPU that cluster.gpus names and the machine lacks.
std::vector<int> order_of_gpus(const Manifest& manifest, const Machine& machine);

/// The run of a manifest, to be planned on this machine: with what was measured of the GPUs that
/// its ranks take by turns. look_for_gpus() has been called.
actors::RunSpec to_run_spec(const Manifest& manifest, const Machine& machine);

}  // namespace troupe::launch

#include "actors/worker/worker_devices.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "actors/topology/stage_devices.h"
#include "tensor/libraries/gpu_choice.h"

namespace troupe::actors {
namespace {

/// Of several GPUs of the machine the one whose turn it is, unless it has failed; `gpu` tells of
/// it.
tensor::DeviceSpec device_of_turn(tensor::DeviceSpec device, const RunSpec::Cluster& cluster,
                                  int turn, WorkerGpu& gpu) {
  if (device.kind != tensor::DeviceKind::cuda) return device;
  std::vector<std::string> chosen = cluster.gpus;
  if (!chosen.empty()) {
    const std::string its = tensor::turn_of<std::string>(turn, chosen);
    if (tensor::is_gpu_instance(its)) {
      // Nothing has called CUDA in this process yet, and from now on it sees this one alone.
      setenv("CUDA_VISIBLE_DEVICES", its.c_str(), 1);
      chosen = {"0"};
    }
  }
  const tensor::DeviceReport report = tensor::report_cuda_devices();
  if (report.devices.empty()) return device;  // the device that is made tells what is missing
  device.index = tensor::gpu_of_turn(turn, tensor::gpus_in_order(report.devices, chosen),
                                     report.devices, cluster.failed_gpus);
  const tensor::DeviceInfo& info = report.devices[static_cast<std::size_t>(device.index)];
  gpu = {.index = device.index, .name = info.name, .uuid = info.uuid};
  return device;
}

}  // namespace

WorkerDevices::WorkerDevices(const RunSpec& spec, int worker)
    : spec_(spec), worker_(worker), first_(&make(first_device())) {}

tensor::DeviceSpec WorkerDevices::first_device() const {
  if (worker_ < spec_.num_ranks())
    return device_of(spec_, spec_.mesh, place_of(spec_.mesh, worker_).stage);
  tensor::DeviceSpec device = spec_.cluster.device;
  if (uses_gpus(spec_)) device.kind = tensor::DeviceKind::cuda;
  return device;
}

/// Workers take GPUs by turns, those that begin without one left out.
int WorkerDevices::turn() const {
  if (spec_.cluster.stage_kinds.empty()) return worker_;
  return static_cast<int>(
      std::ranges::count_if(ranks_on_gpus(spec_), [this](int rank) { return rank < worker_; }));
}

tensor::Device& WorkerDevices::of(const RunSpec::Mesh& mesh, int stage) {
  return make(device_of(spec_, mesh, stage));
}

tensor::Device& WorkerDevices::make(tensor::DeviceSpec device) {
  const std::lock_guard lock(mutex_);
  auto& made = made_[device.kind];
  if (!made)
    made = tensor::make_device(device_of_turn(std::move(device), spec_.cluster, turn(), gpu_));
  return *made;
}

void WorkerDevices::release_reserves() {
  const std::lock_guard lock(mutex_);
  for (const auto& [kind, device] : made_) device->reserve(0);
}

}  // namespace troupe::actors

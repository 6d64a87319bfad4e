#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "actors/topology/reports/worker_gpu.h"
#include "actors/topology/run_spec.h"
#include "tensor/device/device.h"

namespace troupe::actors {

/// What a worker computes with: a device of the kind that its stage has. Where stages of a run have
/// several kinds, a worker that takes the place of another one may come to need a second device,
/// and keeps both. Functions may be called from any thread.
class WorkerDevices {
 public:
  /// Makes the first one: that of the rank with the worker's number in the run's first mesh. A
  /// spare may take any rank's place, and has a GPU if any rank has one. The spec outlives it.
  WorkerDevices(const RunSpec& spec, int worker);

  tensor::Device& first() { return *first_; }
  /// That of a stage. Makes it if it is the first of its kind.
  tensor::Device& of(const RunSpec::Mesh& mesh, int stage);
  /// Gives up memory that a device has reserved (Device::reserve).
  void release_reserves();
  /// The worker's GPU, if its first device is one.
  const WorkerGpu& gpu() const { return gpu_; }

 private:
  tensor::Device& make(tensor::DeviceSpec device);
  tensor::DeviceSpec first_device() const;
  int turn() const;

  const RunSpec& spec_;
  const int worker_;
  WorkerGpu gpu_;
  std::mutex mutex_;
  std::map<tensor::DeviceKind, std::unique_ptr<tensor::Device>> made_;
  tensor::Device* const first_;
};

}  // namespace troupe::actors

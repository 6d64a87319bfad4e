#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "launch/host/machine.h"
#include "stages/decoder/stage/transformer_stage.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "stages/inference/model_part.h"
#include "tensor/device/device.h"
#include "tensor/errors/error.h"

namespace troupe::launch {

/// The directory of a command's model: `path` itself; of a run its newest checkpoint; of the file
/// `best` in a run's checkpoints the first that it names. What is taken is named on standard error.
/// Throws Error{data} if there is none.
std::string model_directory(const std::string& path);

/// The number of threads of a command that works without a cluster: with 0 one for each free core.
inline int threads_of(int threads) {
  return threads > 0 ? threads : this_machine().free_cores;
}

/// The device of a command that works without a cluster: "cpu" or "cuda", of the machine's GPUs the
/// one with this number. With 0 threads a CPU has one thread for each free core. Throws
/// Error{unavailable} if there is no such device.
inline std::unique_ptr<tensor::Device> device_for(const std::string& device, int threads,
                                                  int gpu = 0) {
  return tensor::make_device(
      {.kind = device == "cuda" ? tensor::DeviceKind::cuda : tensor::DeviceKind::cpu,
       .threads = threads_of(threads),
       .index = gpu});
}

/// Opens a checkpoint whose model predicts tokens. Throws Error{data} as CheckpointReader::open
/// does, and for a value head.
inline std::unique_ptr<stages::CheckpointReader> open_language_model(const std::string& dir) {
  auto checkpoint = stages::CheckpointReader::open(dir);
  if (checkpoint->info().model.value_head)
    throw Error(ErrorKind::data, dir +
                                     ": the model has a value head and predicts no tokens; "
                                     "logits writes its values");
  return checkpoint;
}

/// A stage that has a part of the model and does not train, for microbatches of `micro` samples.
inline std::unique_ptr<stages::Stage> part_of_model(
    const stages::ModelConfig& model, const stages::ModelPart& part, std::int64_t micro,
    std::int64_t seq_len, tensor::Device& device,
    stages::Documents documents = stages::Documents::joined) {
  return stages::make_transformer_stage({.model = model,
                                         .chunks = {stages::chunk_of(model, part)},
                                         .sharding = part.sharding(),
                                         .micro = micro,
                                         .seq_len = seq_len,
                                         .documents = documents,
                                         .training = false},
                                        device);
}

}  // namespace troupe::launch

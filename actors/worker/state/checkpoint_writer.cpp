#include "actors/worker/state/checkpoint_writer.h"

#include <exception>
#include <system_error>
#include <utility>

#include "stages/files/safetensors/finite_values.h"

namespace troupe::actors {

void CheckpointWriter::start(std::string dir, const stages::Stage& stage,
                             const stages::ModelConfig& model, const stages::CheckpointPart& part,
                             Answer answer) {
  finish();
  bytes_ = 0;
  const auto write = [this, dir = std::move(dir), &stage, model, part, answer] {
    try {
      stages::write_checkpoint_part(dir, stage, model, part, &bytes_);
    } catch (const stages::NotFinite& error) {
      return answer(error.what(), true);
    } catch (const std::exception& error) {
      return answer(error.what(), false);
    }
    answer("", false);
  };
  try {
    thread_ = std::thread(write);
  } catch (const std::system_error&) {  // no thread is left: the next step waits instead
    write();
  }
}

void CheckpointWriter::finish() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace troupe::actors

#include "actors/worker/checkpoint_writer.h"

#include <exception>
#include <utility>

#include "stages/checkpoint.h"

namespace troupe::actors {

void CheckpointWriter::start(std::string dir, const stages::Stage& stage, int part, int num_parts,
                             std::function<void(const std::string& error)> answer) {
  finish();
  bytes_ = 0;
  thread_ = std::thread(
      [this, dir = std::move(dir), &stage, part, num_parts, answer = std::move(answer)] {
        std::string failure;
        try {
          stages::write_checkpoint_part(dir, stage, part, num_parts, &bytes_);
        } catch (const std::exception& error) {
          failure = error.what();
        }
        answer(failure);
      });
}

void CheckpointWriter::finish() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace troupe::actors

#include "launch/control/memory_json.h"

namespace troupe::launch {

nlohmann::json to_json(const actors::AllocatedMemory& memory) {
  return {{"weights", memory.stage.weights},
          {"gradients", memory.stage.gradients},
          {"optimizer", memory.stage.optimizer},
          {"activations", memory.stage.activations},
          {"packed", memory.stage.packed},
          {"gathered", memory.stage.gathered},
          {"buckets", memory.stage.buckets + memory.buckets},
          {"collectives", memory.collectives},
          {"pools", memory.pools},
          {"total", memory.total()}};
}

}  // namespace troupe::launch

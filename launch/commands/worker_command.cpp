#include <iostream>
#include <iterator>

#include "actors/director/cluster.h"
#include "launch/commands/commands.h"
#include "launch/manifest/run_spec.h"

namespace troupe::launch {

int run(const WorkerOptions&) {
  const std::string birth{std::istreambuf_iterator<char>(std::cin), {}};
  return actors::run_worker(actors::parse_birth(birth), parse_resolved);
}

}  // namespace troupe::launch

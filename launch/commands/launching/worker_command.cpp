#include <iostream>
#include <iterator>

#include "actors/worker/worker.h"
#include "launch/commands/commands.h"
#include "launch/manifest/resolve/run_spec.h"

namespace troupe::launch {

int run(const WorkerOptions&) {
  const transport::UcxEnvironment ucx = transport::prepare_ucx();
  const std::string bootstrap{std::istreambuf_iterator<char>(std::cin), {}};
  return actors::run_worker(actors::parse_bootstrap(bootstrap), parse_resolved, ucx);
}

}  // namespace troupe::launch

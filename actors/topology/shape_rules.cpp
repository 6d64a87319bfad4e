#include "actors/topology/shape_rules.h"

#include "actors/topology/schedule_kinds.h"

namespace troupe::actors {

bool shares_evenly(const RunSpec::Batch& batch, std::int64_t dp) {
  return batch.global % (batch.micro * dp) == 0;
}

int copies_of(const RunSpec::Schedule& schedule) {
  const auto* generator = generator_of(schedule.kind);
  return generator ? generator->copies : 1;
}

std::int64_t most_chunks(const RunSpec& spec, const RunSpec::Schedule& schedule) {
  return spec.model.num_hidden_layers * copies_of(schedule);
}

std::string fault_of_schedule(const RunSpec::Batch& batch, const RunSpec::Mesh& mesh,
                              const RunSpec::Schedule& schedule) {
  const auto* generator = generator_of(schedule.kind);
  if (!generator) return "";
  return generator->check(
      {.stages = mesh.pp, .chunks = schedule.chunks, .microbatches = batch.microbatches(mesh.dp)});
}

}  // namespace troupe::actors

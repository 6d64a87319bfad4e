#include "actors/topology/shape_rules.h"

#include "actors/topology/schedule_kinds.h"
#include "stages/model/sharding.h"

namespace troupe::actors {

bool shares_evenly(const RunSpec::Batch& batch, std::int64_t dp) {
  return batch.global % (batch.micro * dp) == 0;
}

std::string fault_of_shards(const RunSpec& spec, const RunSpec::Mesh& mesh) {
  if (std::string fault = stages::check_sharding(spec.model, mesh.tp); !fault.empty()) return fault;
  const bool pads = spec.batch.documents == stages::Documents::packed;  // to a multiple of tp
  if (!mesh.sequence_parallel || pads || spec.batch.seq_len % mesh.tp == 0) return "";
  int nearest = mesh.tp;
  while (spec.batch.seq_len % nearest != 0 || !stages::check_sharding(spec.model, nearest).empty())
    --nearest;
  return "with sequence parallelism batch.seq_len = " + std::to_string(spec.batch.seq_len) +
         " must be divisible by tp = " + std::to_string(mesh.tp) +
         "; nearest: tp = " + std::to_string(nearest);
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

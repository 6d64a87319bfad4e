#include "actors/worker/rank_configuration.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "actors/topology/boundary.h"
#include "tensor/errors/error.h"
#include "transport/wire/edge.h"

namespace troupe::actors {
namespace {

/// The name of a token file for people: a run's workers open it by a link to the launcher's
/// descriptor of it.
std::string own_name(const std::string& path) {
  const std::string file = stages::is_indexed_dataset(path) ? stages::bin_path(path) : path;
  std::error_code code;
  const auto own = std::filesystem::canonical(file, code);
  return code ? file : own.string();
}

stages::FeedSpec feed_spec(const RunSpec& spec, const RunSpec::Mesh& mesh, int stage) {
  return {.documents = spec.batch.documents,
          .seq_len = spec.batch.seq_len,
          .micro = spec.batch.micro,
          .global = spec.batch.global,
          .replicas = mesh.width(stage).dp,
          .lanes = mesh.lanes_of(stage),
          .lanes_alike = row_multiple_of(spec, mesh) > 0,
          .seed = spec.seed,
          .vocab_size = spec.model.vocab_size};
}

std::unique_ptr<stages::DataFeed> open_feed(const std::vector<RunSpec::Data::Source>& sources,
                                            const stages::FeedSpec& spec, const OpenTokens& open) {
  std::vector<stages::FeedSource> files;
  for (const auto& source : sources)
    files.push_back({.tokens = open(source.tokens), .weight = source.weight});
  return std::make_unique<stages::DataFeed>(std::move(files), spec);
}

/// Whether the rank holds an end of the model, which reads ids or targets.
bool reads_tokens(const Program& program) {
  return std::ranges::any_of(program,
                             [](const Instruction& next) { return next.first || next.last; });
}

/// Whether the rank has losses, and of several sources. The first shard has them for all.
bool tells_sources_apart(const RankAssembly& part, const Program& program, const RunSpec& spec) {
  return spec.data.sources.size() > 1 && part.place.shard == 0 &&
         std::ranges::any_of(program, [](const Instruction& next) { return next.last; });
}

void number_parameters(RankConfiguration& now, const RunSpec& spec) {
  const auto all = stages::parameters_of(spec.model);
  const auto mine = now.stage().parameters();
  auto at = all.begin();  // both are in canonical order
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (!mine[i].owned) continue;
    at = std::ranges::find(at, all.end(), mine[i].name, &stages::ParameterInfo::name);
    TROUPE_ASSERT(at != all.end());
    now.parameters.push_back(static_cast<std::uint32_t>(at - all.begin()));
    now.owned.push_back(i);
  }
  now.squared_norms.resize(mine.size());
}

}  // namespace

std::vector<std::size_t> slots_of(const RankAssembly& part, int rank, const tensor::Device& device,
                                  transport::EdgeChoice choice) {
  std::vector<std::size_t> sizes;
  for (const auto& end : transport::receiving_ends(part.edges, rank)) {
    const transport::Edge& edge = end.front();
    if (edge.is_local()) continue;
    if (transport::is_on_device(edge, &device) && choice != transport::EdgeChoice::staged) continue;
    sizes.push_back(transport::slots_bytes(edge));
  }
  std::ranges::sort(sizes, std::greater{});
  return sizes;
}

std::shared_ptr<StageState> make_state(const stages::StageSpec& stage, tensor::Device& device) {
  auto state = std::make_shared<StageState>();
  state->stage = stages::make_transformer_stage(stage, device);
  state->spec = stage;
  state->device = &device;
  return state;
}

std::unique_ptr<stages::TokenFile> open_tokens(const std::string& path, const std::string& here) {
  return stages::TokenFile::open(here, here == path ? own_name(here) : path);
}

void add_runners(RankConfiguration& now, const RunSpec& spec, const ConfigurationStart& start,
                 transport::Channel& channel, tensor::Device& device, const OpenTokens& open) {
  number_parameters(now, spec);
  const ClusterShape& shape = now.configuration.shape;
  const auto microbatches = spec.batch.microbatches(shape.mesh.dp);
  const stages::StageSpec& stage = now.part.stage;
  const stages::RowSizes rows = stage.rows();
  const Program program = compile_training(now.part);
  const int pieces = stage.row_multiple > 0 ? pieces_of(shape.mesh, now.part.place.stage) : 0;
  const bool shares = spec.data.first_shard_reads && stage.sharding.size > 1;
  // The bounds of documents are needed by every stage, the tokens at the ends of the model alone.
  const bool needs = reads_tokens(program) || spec.batch.documents != stages::Documents::joined;
  if (shares && needs) now.tokens.emplace(device, *now.groups.get(GroupKind::shard_forwards));
  const bool opens =
      !start.saves_only && (!spec.data.first_shard_reads || (now.part.place.shard == 0 && needs));
  const auto data = [&](const stages::DataFeed* feed) {
    return StepTokens::Source{.feed = feed,
                              .broadcast = now.tokens ? &*now.tokens : nullptr,
                              .documents = spec.batch.documents,
                              .replica = now.part.place.replica,
                              .rows = rows,
                              .samples = stage.micro,
                              .lanes = stage.lanes,
                              .pieces = pieces,
                              .num_microbatches = static_cast<int>(microbatches)};
  };
  stages::FeedSpec train = feed_spec(spec, shape.mesh, now.part.place.stage);
  train.shuffle = spec.data.shuffle;
  train.origin = start.sample_origin;
  if (opens) now.feed = open_feed(spec.data.sources, train, open);
  StepTokens::Source trained = data(now.feed.get());
  if (tells_sources_apart(now.part, program, spec))
    trained.num_sources = static_cast<int>(spec.data.sources.size());
  trained.tells_padding = stage.model.experts.count > 0;
  now.runner.emplace(now.stage(), channel, device, program, trained, now.data_parallel.get());
  if (spec.eval.interval <= 0) return;
  stages::FeedSpec eval = feed_spec(spec, shape.mesh, now.part.place.stage);
  eval.once = true;
  for (const RunSpec::Eval::Set& set : spec.eval.sets) {
    const auto& feed = now.eval_feeds.emplace_back(
        opens ? open_feed({{.tokens = set.tokens}}, eval, open) : nullptr);
    now.eval_runners.emplace_back(now.stage(), channel, device,
                                  compile(now.part, now.part.eval_actions), data(feed.get()),
                                  now.data_parallel.get());
  }
}

}  // namespace troupe::actors

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <sstream>

#include "actors/worker/step/plan_runner.h"
#include "stages/decoder/stage/optimizer.h"
#include "tests/support/rank_groups.h"
#include "tests/support/recomputes.h"
#include "tests/support/run_specs.h"

// Trains real stages whose replicas divide gradients and weights, with a thread for each rank and
// real collectives between them, against replicas that each keep all of it.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(divided_replicas_test)

namespace {

using stages::StateDivision;

struct Trained {
  std::map<std::pair<int, int>, double> losses, evaluations;  // by step and rank
  std::map<int, std::vector<double>> norms;                   // by step: of the stages of replica 0
  std::map<std::string, std::vector<float>> weights;  // put together from all replicas' slices
  bool norms_differ = false;                          // whether a replica has others than replica 0
  bool operator==(const Trained&) const = default;
};

constexpr int kSteps = 3;
constexpr std::uint64_t kEvalStep = 1000;

/// Adds the weights that a replica keeps to those of the whole model.
void collect(const stages::Stage& stage, std::map<std::string, std::vector<float>>& weights) {
  for (const stages::Parameter& parameter : stage.parameters()) {
    if (!parameter.owned) continue;
    auto& whole = weights[parameter.name];
    whole.resize(static_cast<std::size_t>(parameter.whole_shape.num_elements()));
    const std::int64_t columns = whole.empty() ? 0 : std::ssize(whole) / parameter.whole_shape[0];
    const auto* kept = test::opened(parameter.kept_weight).as<float>();
    std::copy_n(kept, parameter.kept_weight.num_elements(),
                whole.begin() + parameter.first_kept_row() * columns);
  }
}

Trained train(const RunSpec& spec) {
  const test::ThreadCluster cluster(spec);
  test::UcxNodes nodes(spec.num_ranks());
  Trained trained;
  std::map<std::pair<int, int>, std::vector<double>> norms;  // by step and rank
  std::mutex mutex;
  test::on_ranks(spec.num_ranks(), [&](int rank) {
    const test::ThreadRank own(cluster, nodes, rank);
    stages::DataParallelSpec data_parallel_spec = spec.data_parallel;
    data_parallel_spec.microbatches = spec.num_microbatches();
    const auto all = stages::make_data_parallel(data_parallel_spec, *own.stage,
                                                own.groups.gradient_groups(), *own.device);
    PlanRunner runner = cluster.runner(rank, *own.stage, own.channel, *own.device, all.get());
    PlanRunner evaluator = cluster.evaluator(rank, *own.stage, own.channel, *own.device, *all);
    std::vector<double> squares(own.stage->parameters().size());
    for (int step = 0; step < kSteps; ++step) {
      all->complete_weights();
      const auto number = static_cast<std::uint64_t>(step);
      const PlanResult evaluated = evaluator.evaluate(step, kEvalStep + number);
      all->begin_step();
      const PlanResult result = runner.train(step, number);
      all->finish();
      all->squared_norms(squares);
      all->apply(stages::adamw_step({}, step + 1, 0.5));
      all->share_weights();
      const std::lock_guard lock(mutex);
      trained.losses[{step, rank}] = result.loss_sum;
      trained.evaluations[{step, rank}] = evaluated.loss_sum;
      norms[{step, rank}] = squares;
    }
    all->complete_weights();
    const std::lock_guard lock(mutex);
    collect(*own.stage, trained.weights);
  });
  for (const auto& [place, values] : norms) {
    const auto& [step, rank] = place;
    const int first = rank % spec.mesh.ranks_of_replica();
    if (values != norms.at({step, first})) trained.norms_differ = true;
    if (rank == first)
      trained.norms[step].insert(trained.norms[step].end(), values.begin(), values.end());
  }
  return trained;
}

Trained train(RunSpec spec, const stages::DataParallelSpec& data_parallel) {
  spec.data_parallel = data_parallel;
  return train(spec);
}

/// The largest relative difference of losses, which follow from all weights, and of a stage's
/// norms. Not of weights one by one: a gradient that is zero but for rounding, as that of a key's
/// bias, moves its weight by the learning rate.
double distance(const Trained& a, const Trained& b) {
  double most = 0;
  for (const auto& [place, loss] : a.losses)
    if (loss != 0) most = std::max(most, std::abs(loss - b.losses.at(place)) / std::abs(loss));
  for (const auto& [step, squares] : a.norms) {
    const auto norm = [](const std::vector<double>& all) {
      return std::sqrt(std::accumulate(all.begin(), all.end(), 0.0));
    };
    most = std::max(most, std::abs(norm(squares) - norm(b.norms.at(step))) / norm(squares));
  }
  return most;
}

enum class Model { llama, tied, biases, gpt2 };
#ifdef __SANITIZE_THREAD__  // what threads share does not depend on the model
constexpr Model kModels[]{Model::tied};
constexpr Model kTwoModels[]{Model::gpt2};
#else
constexpr Model kModels[]{Model::llama, Model::tied, Model::biases, Model::gpt2};
constexpr Model kTwoModels[]{Model::llama, Model::gpt2};
#endif
const char* name_of(Model model) {
  constexpr const char* kNames[]{"llama", "tied llama", "llama with biases", "gpt2"};
  return kNames[static_cast<int>(model)];
}

/// Two replicas of a model, of one microbatch each or of several.
RunSpec run_of(Model model, int microbatches, int pp = 1, const char* kind = "1f1b",
               int chunks = 1) {
  RunSpec spec = test::small_run(pp, 2);
  spec.schedule = {.kind = kind, .chunks = chunks};
  spec.batch.global = 2 * spec.batch.micro * microbatches;
  spec.model.hidden_size = 64;  // matrices of several pieces
  spec.model.intermediate_size = 100;
  spec.model.vocab_size = 131;
  spec.model.num_attention_heads = 4;
  spec.model.num_key_value_heads = 2;
  spec.model.head_dim = 16;
  spec.model.tie_word_embeddings = model == Model::tied || model == Model::gpt2;
  if (model == Model::biases) spec.model.attention_bias = spec.model.mlp_bias = true;
  if (model == Model::gpt2) {
    spec.model.kind = stages::ModelKind::gpt2;
    spec.model.num_key_value_heads = spec.model.num_attention_heads;
    spec.model.max_position_embeddings = spec.batch.seq_len;
  }
  return spec;
}

const stages::DataParallelSpec kGradients{.division = StateDivision::optim_grads,
                                          .buckets = {.size = 3000}};
const stages::DataParallelSpec kWeights{.division = StateDivision::optim_grads_params};

/// Trains with every division, and checks what may not differ between them.
void check(const RunSpec& spec, const std::string& name) {
  const Trained none = train(spec, {.buckets = {.size = 3000}});
  const Trained gradients = train(spec, kGradients), weights = train(spec, kWeights);
  BOOST_TEST((weights.losses == gradients.losses), name << ": losses with gathered weights");
  BOOST_TEST((weights.evaluations == gradients.evaluations),
             name << ": evaluations with gathered weights");
  BOOST_TEST((weights.norms == gradients.norms), name << ": norms with gathered weights");
  BOOST_TEST((weights.weights == gradients.weights), name << ": gathered weights");
  BOOST_TEST(!gradients.norms_differ, name);
  BOOST_TEST(!weights.norms_differ, name);
  if (spec.num_microbatches() == 1 && !spec.model.tie_word_embeddings)
    BOOST_TEST((gradients == none), name << ": one microbatch");
  BOOST_TEST(distance(gradients, none) < 1e-6, name << ": " << distance(gradients, none));
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_microbatch_has_the_bits_of_a_state_that_nobody_divides) {
  for (const Model model : kModels)
    for (const int pp : {1, 2}) check(run_of(model, 1, pp), name_of(model));
}

BOOST_AUTO_TEST_CASE(several_microbatches_are_added_in_their_order) {
  for (const Model model : kModels)
    for (const auto& [kind, pp, chunks] : {std::tuple{"1f1b", 1, 1},
                                           {"zb-h1", 2, 1},
                                           {"interleaved", 2, 2},
                                           {"combined-1f1b", 1, 2}})
      check(run_of(model, 4, pp, kind, chunks), std::string(name_of(model)) + ", " + kind);
}

BOOST_AUTO_TEST_CASE(backwards_that_compute_again_gather_what_they_need) {
  for (const Model model : kTwoModels)
    for (const stages::Recompute& recompute : test::ways_to_recompute()) {
      RunSpec spec = run_of(model, 2);
      spec.recompute = recompute;
      std::ostringstream name;
      name << name_of(model) << ", " << recompute;
      BOOST_TEST((train(spec, kWeights) == train(spec, kGradients)), name.str());
    }
}

BOOST_AUTO_TEST_CASE(no_way_to_exchange_changes_a_bit) {
  for (const Model model : kTwoModels) {
    const RunSpec spec = run_of(model, 3, 2);
    const Trained base = train(spec, kGradients);
    for (const stages::BucketRule& buckets :
         {stages::BucketRule{.size = 1}, {.size = 1'000'000}, {.count = 4}}) {
      stages::DataParallelSpec other = kGradients;
      other.buckets = buckets;
      BOOST_TEST((train(spec, other) == base), "buckets");
    }
    stages::DataParallelSpec late = kGradients;
    late.overlaps = late.overlaps_gather = false;
    BOOST_TEST((train(spec, late) == base), "optim_grads without overlap");
    for (const int prefetch : {0, 1, 3})
      for (const bool reshards : {true, false})
        for (const bool overlaps : {true, false}) {
          stages::DataParallelSpec other = kWeights;
          other.prefetch = prefetch;
          other.reshards = reshards;
          other.overlaps = other.overlaps_gather = overlaps;
          BOOST_TEST((train(spec, other) == base), "prefetch " << prefetch << ", reshards "
                                                               << reshards << ", overlaps "
                                                               << overlaps);
        }
  }
}

BOOST_AUTO_TEST_CASE(whole_gradients_keep_the_bits_of_a_step_that_is_reduced_once) {
  for (const Model model : {Model::llama, Model::biases}) {
    const RunSpec spec = run_of(model, 3);
    const Trained none = train(spec, {});
    for (const StateDivision division :
         {StateDivision::optim, StateDivision::optim_grads, StateDivision::optim_grads_params}) {
      const stages::DataParallelSpec once{.division = division, .every_microbatch = false};
      BOOST_TEST((train(spec, once) == none), name_of(model)
                                                  << ", division " << static_cast<int>(division));
    }
  }
}

BOOST_AUTO_TEST_CASE(three_replicas_have_slices_of_their_own) {
  for (const Model model : {Model::llama, Model::tied}) {
    RunSpec spec = run_of(model, 1);
    spec.mesh.dp = 3;
    spec.batch.global = 3 * spec.batch.micro;
    check(spec, name_of(model));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>

#include "actors/inference/stage_edges.h"
#include "tests/stages/generation/generation_model.h"
#include "tests/support/expect_error.h"
#include "tests/support/seed.h"
#include "tests/support/thread_cluster.h"
#include "tests/tensor/thread_group.h"
#include "transport/edges/memory_channel.h"

// A model that writes texts, divided among ranks without processes: threads over an in-memory
// network.

BOOST_AUTO_TEST_SUITE(model_parts_test)

using namespace troupe;
using namespace troupe::test;

namespace {

using Ids = std::vector<std::int32_t>;

/// A batch of prompts, and the tokens that are appended to each, step by step.
struct Batch {
  std::vector<Ids> prompts, appended;
};

/// Three prompts of at most `longest` tokens, and four tokens after each.
Batch random_batch(const stages::ModelConfig& config, std::mt19937_64& random,
                   std::size_t longest = 12) {
  const auto ids = [&](std::size_t count) {
    Ids drawn(count);
    for (std::int32_t& id : drawn)
      id = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(config.vocab_size));
    return drawn;
  };
  Batch batch;
  for (int prompt = 0; prompt < 3; ++prompt) batch.prompts.push_back(ids(1 + random() % longest));
  for (int step = 0; step < 4; ++step) {
    batch.appended.push_back(ids(batch.prompts.size()));
    if (step > 1) batch.appended.back()[1] = -1;  // this one is finished
  }
  return batch;
}

/// The logits of all steps but those of finished sequences.
std::vector<float> logits_of(stages::Generator& generator, const Batch& batch) {
  std::vector<float> all;
  std::span<const float> logits = generator.prefill(batch.prompts);
  all.assign(logits.begin(), logits.end());
  for (const Ids& tokens : batch.appended) {
    logits = generator.decode(tokens);
    const std::size_t vocabulary = logits.size() / tokens.size();
    for (std::size_t i = 0; i < tokens.size() && !logits.empty(); ++i)
      if (tokens[i] >= 0)
        all.insert(all.end(), logits.begin() + static_cast<std::ptrdiff_t>(i * vocabulary),
                   logits.begin() + static_cast<std::ptrdiff_t>((i + 1) * vocabulary));
  }
  return all;
}

stages::GeneratorSpec spec_of(const stages::ModelPart& part, std::int64_t prompt_rows) {
  return {.part = part, .sequences = 3, .capacity = 70, .prompt_rows = prompt_rows};
}

/// The logits as the ranks of a division compute them.
std::vector<float> logits_of(const GenerationModel& model, int pp, int tp, const Batch& batch,
                             std::int64_t prompt_rows = 7) {
  std::vector<std::unique_ptr<tensor::Device>> devices;  // by rank
  for (int rank = 0; rank < pp * tp; ++rank) devices.push_back(make_test_device());
  transport::MemoryNetwork network(pp * tp);
  std::vector<std::shared_ptr<tensor::Meeting>> stages;
  for (int stage = 0; stage < pp; ++stage) stages.push_back(std::make_shared<tensor::Meeting>(tp));
  std::vector<std::vector<float>> logits(static_cast<std::size_t>(pp * tp));  // by rank
  on_ranks(pp * tp, [&](int rank) {
    const stages::ModelPart part = stages::part_of_rank(pp, tp, rank);
    network.channel(rank).set_deadline(std::chrono::seconds(60));
    tensor::ThreadGroup shards(stages[static_cast<std::size_t>(part.stage)], part.shard,
                               tensor::Moves::at_wait);
    tensor::Device& device = *devices[static_cast<std::size_t>(rank)];
    std::optional<actors::StageEdges> edges;
    if (pp > 1)
      edges.emplace(network.channel(rank), device, part,
                    actors::StageMessages{.shapes = {{prompt_rows, model.config().hidden_size},
                                                     {3, model.config().hidden_size}},
                                          .dtype = model.config().dtype});
    const OwnGenerator generator = model.generator(
        spec_of(part, prompt_rows),
        {.shards = tp > 1 ? &shards : nullptr, .stages = edges ? &*edges : nullptr});
    logits[static_cast<std::size_t>(rank)] = logits_of(*generator, batch);
    if (edges) edges->flush();
  });
  const std::size_t leader = static_cast<std::size_t>((pp - 1) * tp);
  for (std::size_t rank = 0; rank < logits.size(); ++rank)
    BOOST_TEST_REQUIRE(logits[rank].empty() == (rank != leader));
  return logits[leader];
}

double largest_distance(const std::vector<float>& a, const std::vector<float>& b) {
  BOOST_TEST_REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  return largest;
}

}  // namespace

BOOST_AUTO_TEST_CASE(stages_give_the_bits_of_one_and_shards_nearly_the_same) {
  std::mt19937_64 random(fresh_seed());
  for (const stages::ModelConfig& config : generation_models()) {
    const GenerationModel model(config);
    const Batch batch = random_batch(config, random);
    const std::vector<float> whole = logits_of(model, 1, 1, batch);
    for (const int pp : {2, 3}) BOOST_TEST((logits_of(model, pp, 1, batch) == whole), pp);
    for (const int tp : {2, 4}) {
      const std::vector<float> shards = logits_of(model, 1, tp, batch);
      BOOST_TEST(largest_distance(shards, whole) < 1e-5, tp);
      BOOST_TEST((logits_of(model, 3, tp, batch) == shards), tp);
    }
  }
}

// Passes over prompts are so large that shards divide their tokens between products.
BOOST_AUTO_TEST_CASE(shards_of_large_passes_divide_the_tokens) {
  std::mt19937_64 random(fresh_seed());
  for (stages::ModelConfig config : {generation_models().front(), generation_models().back()}) {
    config.hidden_size = 256;
    config.initializer_range /= 4;  // products as large as those of the small model, of 16
    config.head_dim = config.hidden_size / config.num_attention_heads;
    config.max_position_embeddings = 80;
    const GenerationModel model(config);
    const Batch batch = random_batch(config, random, 60);
    const std::vector<float> whole = logits_of(model, 1, 1, batch, 64);
    const std::vector<float> shards = logits_of(model, 1, 2, batch, 64);
    BOOST_TEST(largest_distance(shards, whole) < 1e-5);
    BOOST_TEST((logits_of(model, 3, 2, batch, 64) == shards));
  }
}

BOOST_AUTO_TEST_CASE(bfloat16_goes_between_stages_as_it_is) {
  std::mt19937_64 random(fresh_seed());
  stages::ModelConfig config = generation_models().front();
  config.dtype = tensor::DType::bf16;
  const GenerationModel model(config);
  const Batch batch = random_batch(config, random);
  BOOST_TEST((logits_of(model, 3, 1, batch) == logits_of(model, 1, 1, batch)));
}

// The same texts, but the stage before is gone.
BOOST_AUTO_TEST_CASE(a_wait_for_a_lost_stage_ends) {
  std::mt19937_64 random(fresh_seed());
  const GenerationModel model(generation_models().front());
  const Batch batch = random_batch(model.config(), random);
  const auto device = make_test_device();
  transport::MemoryNetwork network(2);
  actors::StageEdges edges(network.channel(1), *device, stages::part_of_rank(2, 1, 1),
                           {.shapes = {{7, 16}, {3, 16}}});
  const OwnGenerator generator =
      model.generator(spec_of(stages::part_of_rank(2, 1, 1), 7), {.stages = &edges});
  network.disconnect(0);
  expect_error(ErrorKind::unavailable, {"rank 0"}, [&] { generator->prefill(batch.prompts); });
}

BOOST_AUTO_TEST_CASE(every_rank_has_a_part_of_its_own) {
  const stages::ModelConfig config = generation_models().front();  // of three layers
  std::vector<int> layers(3);
  for (int rank = 0; rank < 4; ++rank) {
    const stages::ModelPart part = stages::part_of_rank(2, 2, rank);
    BOOST_TEST(part.rank() == rank);
    const stages::ChunkSpec chunk = chunk_of(config, part);
    BOOST_TEST(chunk.embedding == part.is_first());
    BOOST_TEST(chunk.head == part.is_last());
    for (int layer = chunk.first_layer; layer < chunk.end_layer; ++layer)
      ++layers[static_cast<std::size_t>(layer)];
  }
  BOOST_TEST((layers == std::vector<int>{2, 2, 2}));
}

BOOST_AUTO_TEST_SUITE_END()

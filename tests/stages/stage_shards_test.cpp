// A model divided among tensor-parallel shards computes what one stage computes, and the same bits
// however its layers lie on stages.

#include <boost/test/unit_test.hpp>
#include <exception>
#include <optional>
#include <thread>

#include "tests/support/pipeline.h"
#include "tests/support/recomputes.h"
#include "tests/support/test_device.h"
#include "tests/tensor/thread_group.h"

BOOST_AUTO_TEST_SUITE(stage_shards_test)

using namespace troupe;
using namespace troupe::test;
using tensor::Meeting;
using tensor::Moves;
using tensor::ThreadGroup;

namespace {

constexpr int kMicrobatches = 3;
constexpr std::int64_t kTokens = 24;

struct Setup {
  stages::ModelKind kind = stages::ModelKind::llama;
  tensor::DType dtype = tensor::DType::f32;
  bool tied = false;
  bool biases = false;  ///< of llama's products
  std::int64_t kv_heads = 4;
  std::int64_t vocab = 61;
  double dropout = 0;
  double lr = 1e-2;
  int shards = 1;
  bool sequence_parallel = false;
  std::vector<int> layers_of_chunk = {3};
  std::vector<int> stage_of_chunk = {0};
  Order order = Order::one_by_one;
  Moves moves = Moves::at_wait;
  stages::Recompute recompute{};
  bool packed = false;
};

/// As many rows for any number of shards, so that each has the same documents.
Tokens tokens_of(const Setup& setup, std::uint64_t seed) {
  if (!setup.packed) return random_tokens(kTokens, setup.vocab, seed);
  const auto rows = stages::row_sizes(stages::Documents::packed, kTokens, setup.shards);
  Tokens tokens =
      random_documents({.capacity = kTokens, .step = 12}, kTokens / 2, setup.vocab, seed);
  TROUPE_ASSERT(std::ssize(tokens.ids) % rows.step == 0);
  return tokens;
}

stages::ModelConfig model_of(const Setup& setup) {
  return {.kind = setup.kind,
          .hidden_size = 48,
          .intermediate_size = 72,
          .num_hidden_layers = 3,
          .num_attention_heads = 12,
          .num_key_value_heads = setup.kv_heads,
          .head_dim = 4,
          .vocab_size = setup.vocab,
          .attention_bias = setup.biases,
          .mlp_bias = setup.biases,
          .max_position_embeddings = kTokens / 2 + 3,
          .tie_word_embeddings = setup.tied,
          .initializer_range = 0.1,
          .hidden_dropout = setup.dropout,
          .attention_dropout = setup.dropout,
          .dtype = setup.dtype};
}

/// What one shard holds of a parameter: the gradient of the first step, from equal weights, and the
/// weight after two.
struct Piece {
  tensor::Region region;
  bool owned = false;
  std::vector<float> gradient, weight;
  bool operator==(const Piece&) const = default;
};
struct Shard {
  std::vector<double> losses;
  double evaluation = 0;
  std::map<std::string, Piece> pieces;
  bool operator==(const Shard&) const = default;
};

std::vector<float> read(const tensor::Tensor& x, const tensor::Region& region) {
  const auto* data = test::opened(x).as<float>();
  return {data, data + region.num_elements()};
}

Shard train(const Setup& setup, int shard, const stages::ShardGroups& groups) {
  const auto device = test::make_test_device();
  Pipeline pipeline(
      {.model = model_of(setup),
       .layers_of_chunk = setup.layers_of_chunk,
       .stage_of_chunk = setup.stage_of_chunk,
       .microbatches = kMicrobatches,
       .micro = 2,
       .seq_len = kTokens / 2,
       .documents = setup.packed ? stages::Documents::packed : stages::Documents::joined,
       .order = setup.order,
       .sharding = {.size = setup.shards,
                    .shard = shard,
                    .sequence_parallel = setup.sequence_parallel},
       .recompute = setup.recompute},
      *device, 11, groups);
  const stages::OptimizerConfig optimizer = {.lr = setup.lr, .clip = 0, .warmup_steps = 0};
  Shard out;
  for (int step = 1; step <= 2; ++step) {
    std::vector<Tokens> batch;
    for (int m = 0; m < kMicrobatches; ++m)
      batch.push_back(tokens_of(setup, static_cast<std::uint64_t>(step + m)));
    const auto result = pipeline.step(optimizer, step, batch);
    out.losses.insert(out.losses.end(), result.losses.begin(), result.losses.end());
    for (const auto& stage : pipeline.stages())
      for (const stages::Parameter& p : stage->parameters()) {
        Piece& piece = out.pieces[p.name];
        piece.region = p.region;
        piece.owned = piece.owned || p.owned;
        if (step == 1) piece.gradient = read(p.gradient, p.region);
        piece.weight = read(p.weight, p.region);
      }
  }
  out.evaluation = pipeline.evaluate(tokens_of(setup, 7));
  return out;
}

/// Collectives of one shard's backwards by name.
using Collectives = std::map<std::string, std::int64_t>;

/// All shards, each a thread. Nothing in them may use Boost.Test, which serves one thread. Counts
/// the collectives of the first shard, if asked to.
std::vector<Shard> train_all(const Setup& setup, Collectives* of_backwards = nullptr) {
  if (setup.shards == 1) return {train(setup, 0, {})};
  const int sharing = stages::shards_per_kv_head(model_of(setup), setup.shards);
  const auto forward = std::make_shared<Meeting>(setup.shards);
  const auto backward = std::make_shared<Meeting>(setup.shards);
  std::vector<std::shared_ptr<Meeting>> heads;
  for (int head = 0; head < setup.shards / sharing; ++head)
    heads.push_back(std::make_shared<Meeting>(sharing));
  std::vector<Shard> shards(static_cast<std::size_t>(setup.shards));
  std::vector<std::exception_ptr> faults(shards.size());
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < setup.shards; ++i)
      threads.emplace_back([&, i] {
        ThreadGroup f(forward, i, setup.moves), b(backward, i, setup.moves);
        ThreadGroup head(heads[static_cast<std::size_t>(i / sharing)], i % sharing, setup.moves);
        try {
          shards[static_cast<std::size_t>(i)] =
              train(setup, i,
                    {.forward = &f,
                     .backward = &b,
                     .gradients = setup.sequence_parallel ? &b : nullptr,
                     .kv_head = sharing > 1 ? &head : nullptr});
          if (i == 0 && of_backwards)
            for (const auto& [name, traffic] : b.traffic()) (*of_backwards)[name] = traffic.calls;
        } catch (const std::exception& fault) {
          faults[static_cast<std::size_t>(i)] = std::current_exception();
          for (const auto& meeting : heads) meeting->abort(fault.what());
          forward->abort(fault.what());
          backward->abort(fault.what());
        }
      });
  }
  for (const auto& fault : faults)
    if (fault) std::rethrow_exception(fault);
  return shards;
}

/// Sums of squares, of errors and of what is expected.
struct Squares {
  double error = 0, size = 0;
};

/// The distance of what the shards hold together from the whole parameter.
Squares distance(const std::vector<Shard>& shards, const std::string& name, const Piece& whole,
                 std::vector<float> Piece::*values) {
  Squares sum;
  std::int64_t owned = 0;
  for (const Shard& shard : shards) {
    const Piece& piece = shard.pieces.at(name);
    const auto& [row, rows, column, columns] = piece.region;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) {
        const auto at = static_cast<std::size_t>((row + r) * whole.region.columns + column + c);
        const double expected = (whole.*values)[at];
        sum.error +=
            std::pow((piece.*values)[static_cast<std::size_t>(r * columns + c)] - expected, 2);
        sum.size += expected * expected;
      }
    if (piece.owned) owned += piece.region.num_elements();
  }
  BOOST_TEST(owned == whole.region.num_elements(), name << " is not owned once");
  return sum;
}

void check_close(const Setup& setup, const Shard& whole) {
  const auto shards = train_all(setup);
  const bool exact = setup.dtype == tensor::DType::f32;
  for (std::size_t i = 0; i < whole.losses.size(); ++i)
    BOOST_TEST(std::abs(shards[0].losses[i] / whole.losses[i] - 1) < (exact ? 2e-6 : 5e-3));
  BOOST_TEST(std::abs(shards[0].evaluation / whole.evaluation - 1) < (exact ? 2e-6 : 5e-3));
  for (std::size_t i = 1; i < shards.size(); ++i) BOOST_TEST(shards[i].evaluation == 0);
  // By tensors of files, because the bias of GPT-2's keys has no gradient but noise.
  std::map<std::string, Squares> tensors;
  for (const stages::ParameterInfo& info : parameters_of(model_of(setup))) {
    const auto [error, size] =
        distance(shards, info.name, whole.pieces.at(info.name), &Piece::gradient);
    tensors[info.stored.tensor].error += error;
    tensors[info.stored.tensor].size += size;
  }
  for (const auto& [name, sum] : tensors) {
    const double gradient = std::sqrt(sum.error / sum.size);
    BOOST_TEST(gradient < (exact ? 1e-5 : 5e-2), name << ": " << gradient);
  }
}

void check_all_shardings(Setup setup) {
  const Shard whole = train_all(setup).front();
  for (const int shards : {2, 3, 4}) {
    setup.shards = shards;
    if (!stages::check_sharding(model_of(setup), shards).empty()) continue;
    for (const bool sequence_parallel : {false, true}) {
      setup.sequence_parallel = sequence_parallel;
      BOOST_TEST_CONTEXT(shards << " shards, " << setup.kv_heads << " kv heads, vocabulary "
                                << setup.vocab << (setup.tied ? ", tied" : "")
                                << (sequence_parallel ? ", sequence parallel" : ""))
      check_close(setup, whole);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(shards_compute_what_one_stage_computes) {
  for (const bool tied : {false, true})
    for (const auto& [kv_heads, vocab] : {std::pair{12, 60}, {2, 61}})
      check_all_shardings({.tied = tied, .kv_heads = kv_heads, .vocab = vocab});
}

BOOST_AUTO_TEST_CASE(shards_with_biases_compute_what_one_stage_computes) {
  for (const std::int64_t kv_heads : {12, 2})
    check_all_shardings({.biases = true, .kv_heads = kv_heads});
}

BOOST_AUTO_TEST_CASE(shards_of_gpt2_compute_what_one_stage_computes) {
  for (const bool tied : {false, true})
    check_all_shardings(
        {.kind = stages::ModelKind::gpt2, .tied = tied, .kv_heads = 12, .vocab = 61});
}

BOOST_AUTO_TEST_CASE(shards_drop_what_one_stage_drops) {
  struct Placed {
    std::int64_t kv_heads;
    std::vector<int> layers_of_chunk, stage_of_chunk;
  };
  for (const auto& [kv_heads, layers, places] : {Placed{12, {3}, {0}}, {2, {0, 3, 0}, {0, 1, 2}}}) {
    // A smaller step: dropped elements leave small gradients, whose rounding AdamW magnifies.
    Setup setup{.tied = true, .kv_heads = kv_heads, .dropout = 0.2, .lr = 1e-3};
    const Shard whole = train_all(setup).front();
    setup.layers_of_chunk = layers;
    setup.stage_of_chunk = places;
    setup.order = places.size() > 1 ? Order::late_weights : Order::one_by_one;
    for (const int shards : {2, 3, 4}) {
      setup.shards = shards;
      if (!stages::check_sharding(model_of(setup), shards).empty()) continue;
      for (const bool sequence_parallel : {false, true}) {
        setup.sequence_parallel = sequence_parallel;
        BOOST_TEST_CONTEXT(shards << " shards" << (sequence_parallel ? ", sequence parallel" : ""))
        check_close(setup, whole);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(shards_of_packed_documents_compute_what_one_stage_computes) {
  check_all_shardings({.tied = true, .kv_heads = 2, .packed = true});
  check_all_shardings({.kind = stages::ModelKind::gpt2,
                       .kv_heads = 12,
                       .dropout = 0.2,
                       .lr = 1e-3,
                       .packed = true});
}

BOOST_AUTO_TEST_CASE(bfloat16_shards_compute_what_one_stage_computes) {
  Setup setup{.dtype = tensor::DType::bf16};
  const Shard whole = train_all(setup).front();
  setup.shards = 2;
  for (const bool sequence_parallel : {false, true}) {
    setup.sequence_parallel = sequence_parallel;
    check_close(setup, whole);
  }
}

BOOST_AUTO_TEST_CASE(shards_have_the_same_bits_wherever_the_model_is_cut) {
  struct Cut {
    std::vector<int> layers, stages;
    Order order;
  };
  const std::vector<Cut> cuts = {{{3}, {0}, Order::late_weights},
                                 {{1, 2}, {0, 1}, Order::mixed_backward},
                                 {{1, 0, 1, 1}, {0, 1, 0, 1}, Order::late_weights},
                                 {{0, 3, 0}, {0, 1, 2}, Order::all_forward},
                                 {{0, 3, 0}, {0, 1, 2}, Order::late_weights}};
  const Setup llama{.tied = false, .kv_heads = 2, .shards = 4};
  const Setup tied_llama{.tied = true, .biases = true, .kv_heads = 2, .dropout = 0.1, .shards = 4};
  const Setup gpt2{.kind = stages::ModelKind::gpt2, .tied = true, .kv_heads = 12, .shards = 4};
  Setup dropped_gpt2 = gpt2;
  dropped_gpt2.dropout = 0.1;
  // Each of many streams and threads waits for the others often, so fewer runs must do there.
  const std::vector<Setup> setups = test::tests_async_device()
                                        ? std::vector{tied_llama, dropped_gpt2}
                                        : std::vector{llama, tied_llama, gpt2, dropped_gpt2};
  for (Setup setup : setups)
    for (const bool sequence_parallel : {false, true}) {
      setup.sequence_parallel = sequence_parallel;
      setup.layers_of_chunk = {3};
      setup.stage_of_chunk = {0};
      setup.order = Order::one_by_one;
      const auto whole = train_all(setup);
      setup.moves = Moves::at_call;
      BOOST_TEST((train_all(setup) == whole), "repeated");
      setup.moves = Moves::at_wait;
      for (const Cut& cut : cuts) {
        setup.layers_of_chunk = cut.layers;
        setup.stage_of_chunk = cut.stages;
        setup.order = cut.order;
        const auto shards = train_all(setup);
        for (std::size_t i = 0; i < whole.size(); ++i) {
          BOOST_TEST(shards[i].losses == whole[i].losses, boost::test_tools::per_element());
          BOOST_TEST(shards[i].evaluation == whole[i].evaluation);
          for (const auto& [name, piece] : whole[i].pieces)
            BOOST_TEST((shards[i].pieces.at(name).weight == piece.weight),
                       name << " on " << cut.stages.size() << " chunks");
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(shards_that_recompute_have_the_same_bits) {
  struct Cut {
    std::vector<int> layers, stages;
    Order order;
  };
  const std::vector<Cut> cuts = {{{3}, {0}, Order::one_by_one},
                                 {{0, 3, 0}, {0, 1, 2}, Order::late_weights},
                                 {{1, 2}, {0, 1}, Order::mixed_backward}};
  const Setup llama{.kv_heads = 2, .shards = 2};
  const Setup gpt2{.kind = stages::ModelKind::gpt2, .kv_heads = 12, .dropout = 0.1, .shards = 2};
  Setup documents = gpt2;
  documents.packed = true;
  std::size_t next = 0;  // each way meets another cut with sequence parallelism than without
  for (Setup setup : {llama, gpt2, documents})
    for (const bool sequence_parallel : {false, true}) {
      setup.sequence_parallel = sequence_parallel;
      setup.recompute = {};
      setup.layers_of_chunk = {3};
      setup.stage_of_chunk = {0};
      setup.order = Order::one_by_one;
      const auto kept = train_all(setup);
      for (stages::Recompute recompute : ways_to_recompute())
        // Shards can keep parts of inputs if all of them have the same.
        for (const bool distributes : {false, !sequence_parallel}) {
          const Cut& cut = cuts[next++ % cuts.size()];
          recompute.distribute_saved_activations = distributes;
          setup.recompute = recompute;
          setup.layers_of_chunk = cut.layers;
          setup.stage_of_chunk = cut.stages;
          setup.order = cut.order;
          BOOST_TEST((train_all(setup) == kept), recompute << " on " << cut.stages.size()
                                                           << " chunks"
                                                           << (sequence_parallel ? ", split" : ""));
        }
    }
}

BOOST_AUTO_TEST_CASE(recompute_has_the_collectives_of_the_forward_less_the_last_of_a_group) {
  using enum stages::Recompute::Mode;
  // What a backward of one microbatch has more than one that computes nothing again.
  const auto more = [](bool sequence_parallel, const stages::Recompute& recompute) {
    Setup setup{.shards = 2, .sequence_parallel = sequence_parallel};
    Collectives kept, again;
    train_all(setup, &kept);
    setup.recompute = recompute;
    train_all(setup, &again);
    Collectives out;
    for (const auto& [name, calls] : again)
      if (calls != kept[name]) out[name] = (calls - kept[name]) / (2 * kMicrobatches);
    return out;
  };
  for (const bool sequence_parallel : {false, true})
    for (const auto mode : {selective, output})
      BOOST_TEST(more(sequence_parallel, {.mode = mode}).empty());
  // Three layers: each alone, or a group of two and one of one.
  const stages::Recompute alone{.mode = full}, groups{.mode = full, .num_layers = 2};
  BOOST_TEST((more(false, alone) == Collectives{{"all-reduce", 3}}));
  BOOST_TEST((more(false, groups) == Collectives{{"all-reduce", 4}}));
  BOOST_TEST((more(true, alone) == Collectives{{"all-gather", 6}, {"reduce-scatter", 3}}));
  BOOST_TEST((more(true, groups) == Collectives{{"all-gather", 6}, {"reduce-scatter", 4}}));
  stages::Recompute distributed = groups;
  distributed.distribute_saved_activations = true;
  BOOST_TEST((more(false, distributed) == Collectives{{"all-gather", 2}, {"all-reduce", 4}}));
}

BOOST_AUTO_TEST_SUITE_END()

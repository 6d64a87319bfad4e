#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/families.h"
#include "tests/support/pipeline.h"
#include "tests/support/test_device.h"
#include "tests/tensor/thread_group.h"

// A model divided among tensor-parallel shards, each a thread, and its comparison with one stage.

namespace troupe::test::sharded {

using tensor::Meeting;
using tensor::Moves;
using tensor::ThreadGroup;

inline constexpr int kMicrobatches = 3;
inline constexpr std::int64_t kTokens = 24;

struct Setup {
  stages::ModelKind kind = stages::ModelKind::llama;
  tensor::DType dtype = tensor::DType::f32;
  bool tied = false;
  bool biases = false;  ///< of llama's products
  std::int64_t kv_heads = 4;
  std::int64_t vocab = 61;
  double dropout = 0;
  double lr = 1e-2;
  std::string_view family = {};  ///< as_family()
  int shards = 1;
  bool sequence_parallel = false;
  std::vector<int> layers_of_chunk = {3};
  std::vector<int> stage_of_chunk = {0};
  Order order = Order::one_by_one;
  Moves moves = Moves::at_wait;
  stages::Recompute recompute{};
  bool packed = false;
  bool whole_experts = false;
  std::int64_t loss_chunk = 0;
  /// Whether it has an adapter, of which the dropout is too, and of which targets; none: of all.
  bool adapts = false;
  std::vector<std::string> targets{};
};

/// Tokens in as many rows for any number of shards, so that each has the same documents.
inline Tokens tokens_of(const Setup& setup, std::uint64_t seed) {
  if (!setup.packed) return random_tokens(kTokens, setup.vocab, seed);
  const auto rows = stages::row_sizes(stages::Documents::packed, kTokens, setup.shards);
  Tokens tokens =
      random_documents({.capacity = kTokens, .step = 12}, kTokens / 2, setup.vocab, seed);
  TROUPE_ASSERT(std::ssize(tokens.ids) % rows.step == 0);
  return tokens;
}

inline stages::ModelConfig model_of(const Setup& setup) {
  const stages::ModelConfig sizes{.kind = setup.kind,
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
                                  .loss_chunk = setup.loss_chunk,
                                  .dtype = setup.dtype};
  const stages::ModelConfig model = as_family(sizes, setup.family);
  return setup.adapts ? with_adapter(model, setup.dropout, setup.targets) : model;
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
  std::vector<float> balances;  ///< of routers
  std::map<std::string, Piece> pieces;
  bool operator==(const Shard&) const = default;
};

inline std::vector<float> read(const tensor::Tensor& x, const tensor::Region& region) {
  const auto* data = test::opened(x).as<float>();
  return {data, data + region.num_elements()};
}

inline Shard train(const Setup& setup, int shard, const stages::ShardGroups& groups) {
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
                    .sequence_parallel = setup.sequence_parallel,
                    .whole_experts = setup.whole_experts},
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
      for (const stages::RouterLoad& load : stage->router_loads())
        out.balances.push_back(load.balance);
    for (const auto& stage : pipeline.stages())
      for (const stages::Parameter& p : stage->parameters()) {
        Piece& piece = out.pieces[p.name];
        piece.region = p.region;
        piece.owned = piece.owned || p.owned;
        if (step == 1 && p.gradient) piece.gradient = read(p.gradient, p.region);
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
inline std::vector<Shard> train_all(const Setup& setup, Collectives* of_backwards = nullptr) {
  if (setup.shards == 1) return {train(setup, 0, {})};
  const int sharing = stages::shards_per_kv_head(model_of(setup), setup.shards);
  const bool sums = stages::sums_gradients(
      model_of(setup), {.size = setup.shards, .sequence_parallel = setup.sequence_parallel});
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
          shards[static_cast<std::size_t>(i)] = train(setup, i,
                                                      {.forward = &f,
                                                       .backward = &b,
                                                       .gradients = sums ? &b : nullptr,
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
inline Squares distance(const std::vector<Shard>& shards, const std::string& name,
                        const Piece& whole, std::vector<float> Piece::*values) {
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

inline void check_close(const Setup& setup, const Shard& whole) {
  const auto shards = train_all(setup);
  const bool exact = setup.dtype == tensor::DType::f32;
  for (std::size_t i = 0; i < whole.losses.size(); ++i)
    BOOST_TEST(std::abs(shards[0].losses[i] / whole.losses[i] - 1) < (exact ? 2e-6 : 5e-3));
  BOOST_TEST(std::abs(shards[0].evaluation / whole.evaluation - 1) < (exact ? 2e-6 : 5e-3));
  for (std::size_t i = 1; i < shards.size(); ++i) BOOST_TEST(shards[i].evaluation == 0);
  for (const Shard& shard : shards)
    for (std::size_t i = 0; i < whole.balances.size(); ++i)
      BOOST_TEST(std::abs(shard.balances.at(i) / whole.balances[i] - 1) < (exact ? 1e-5 : 5e-2));
  // By tensors of files, because the bias of GPT-2's keys has no gradient but noise.
  std::map<std::string, Squares> tensors;
  for (const stages::ParameterInfo& info : parameters_of(model_of(setup))) {
    if (info.update.is_base) continue;
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

inline void check_all_shardings(Setup setup) {
  const Shard whole = train_all(setup).front();
  for (const int shards : {2, 3, 4}) {
    setup.shards = shards;
    if (!stages::check_sharding(model_of(setup), shards, setup.whole_experts).empty()) continue;
    for (const bool sequence_parallel : {false, true}) {
      if (setup.whole_experts && !sequence_parallel) continue;
      setup.sequence_parallel = sequence_parallel;
      BOOST_TEST_CONTEXT(shards << " shards, " << setup.kv_heads << " kv heads, vocabulary "
                                << setup.vocab << (setup.tied ? ", tied" : "")
                                << (sequence_parallel ? ", sequence parallel" : ""))
      check_close(setup, whole);
    }
  }
}

}  // namespace troupe::test::sharded

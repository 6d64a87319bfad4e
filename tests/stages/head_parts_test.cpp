// A head that computes its logits in parts, and loses them, gives the bits of one that keeps them.

#include "stages/decoder/layers/head_parts.h"

#include <cpuid.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>

#include "tests/stages/sharded_training.h"
#include "tests/support/recomputes.h"

BOOST_AUTO_TEST_SUITE(head_parts_test)

using namespace troupe;
using namespace troupe::test;
using namespace troupe::test::sharded;

namespace {

bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kAmxBf16 = 1U << 22;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAmxBf16) != 0;
}

/// Whether a row's product has the same bits among any number of rows. With AVX2 alone oneDNN adds
/// those of a matrix's last rows in another order, and so it does those of few rows of bfloat16
/// where others are AMX's.
bool rows_are_alike(tensor::DType dtype) {
  const char* const lesser = std::getenv("ONEDNN_MAX_CPU_ISA");
  return !lesser && __builtin_cpu_supports("avx512bw") &&
         !(dtype == tensor::DType::bf16 && has_amx());
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += a[i] * a[i];
    difference += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return std::sqrt(difference / std::max(squares, 1e-30));
}

void check_same(tensor::DType dtype, const std::vector<Shard>& got,
                const std::vector<Shard>& wanted) {
  if (rows_are_alike(dtype)) {
    BOOST_TEST((got == wanted));
    return;
  }
  for (std::size_t i = 0; i < wanted.size(); ++i)
    for (const auto& [name, piece] : wanted[i].pieces)
      BOOST_TEST(distance(piece.gradient, got[i].pieces.at(name).gradient) < 1e-2, name);
}

using Parts = std::vector<std::int64_t>;

Parts parts_of(const stages::HeadParts& parts, std::int64_t tokens) {
  Parts counts;
  std::int64_t next = 0;
  parts.for_each(tokens, [&](const stages::RowRange& part) {
    BOOST_TEST(part.first == next);
    next += part.count;
    counts.push_back(part.count);
  });
  BOOST_TEST(next == tokens);
  return counts;
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_buffer_takes_more_than_256_MiB_by_default) {
  stages::ModelConfig model;
  const auto parts = [&](std::int64_t vocabulary, std::int64_t chunk, std::int64_t tokens,
                         int shards = 1) {
    model.vocab_size = vocabulary;
    model.loss_chunk = chunk;
    return stages::head_parts(model, tokens, shards);
  };
  const stages::HeadParts small = parts(32000, 0, 2048);
  BOOST_TEST(!small.are_divided);
  BOOST_TEST(small.block == 2048);
  BOOST_TEST(parts(131072, 0, 8192).rows == 512);
  BOOST_TEST(parts(131072, 0, 8192).are_divided);
  BOOST_TEST(parts(131072, 0, 8192, 4).rows == 2048);
  BOOST_TEST(parts(1 << 28, 0, 8).rows == 1);
  // What is chosen decides how many logits there are at a time, and never the order of additions.
  BOOST_TEST(parts(131072, 100, 8192).rows == 100);
  BOOST_TEST(parts(131072, 4096, 8192).rows == 512);
  BOOST_TEST(!parts(131072, 8192, 8192).are_divided);
  for (const std::int64_t chunk : {0, 1, 100, 4096, 8192, 100000})
    BOOST_TEST(parts(131072, chunk, 8192).block == 512);
  model.value_head = true;
  BOOST_TEST(!parts(1 << 28, 1, 8).are_divided);
}

BOOST_AUTO_TEST_CASE(parts_end_where_a_block_ends) {
  const stages::HeadParts parts{.block = 8, .rows = 3, .are_divided = true};
  BOOST_TEST(parts_of(parts, 20) == (Parts{3, 3, 2, 3, 3, 2, 3, 1}),
             boost::test_tools::per_element());
  std::vector<std::int64_t> counts;
  parts.add_row_counts(20, counts);
  for (const std::int64_t count : {8, 4, 3, 2, 1})
    BOOST_TEST(std::ranges::count(counts, count) > 0, count);
}

BOOST_AUTO_TEST_CASE(no_bit_depends_on_the_parts) {
  Setup llama{.kv_heads = 2};
  Setup tied{.dtype = tensor::DType::bf16, .tied = true, .biases = true, .dropout = 0.1};
  Setup gpt2{.kind = stages::ModelKind::gpt2, .tied = true, .kv_heads = 12, .dropout = 0.1};
  Setup packed{.dtype = tensor::DType::bf16, .kv_heads = 2, .packed = true};
  Setup capped{.dtype = tensor::DType::bf16, .kv_heads = 2, .family = "gemma2"};
  Setup scaled{.tied = true, .kv_heads = 2, .family = "granite"};
  std::size_t next = 0;
  for (Setup setup : {llama, tied, gpt2, packed, capped, scaled})
    for (const auto& [shards, sequence_parallel] :
         {std::pair(1, false), std::pair(2, false), std::pair(2, true)}) {
      setup.shards = shards;
      setup.sequence_parallel = sequence_parallel;
      setup.recompute = {};
      setup.loss_chunk = 0;
      setup.layers_of_chunk = {3};
      setup.stage_of_chunk = {0};
      setup.order = Order::one_by_one;
      const auto whole = train_all(setup);
      for (const std::int64_t chunk : {1, 7, 64}) {
        setup.loss_chunk = chunk;
        // Each meets another cut, order and way to recompute.
        const auto ways = ways_to_recompute();
        setup.recompute = ++next % 2 == 0 ? ways[next % ways.size()] : stages::Recompute{};
        const bool is_cut = next % 3 == 0;
        setup.layers_of_chunk = is_cut ? std::vector{0, 3, 0} : std::vector{3};
        setup.stage_of_chunk = is_cut ? std::vector{0, 1, 2} : std::vector{0};
        setup.order = std::array{Order::one_by_one, Order::late_weights, Order::all_forward,
                                 Order::mixed_backward}[next % 4];
        BOOST_TEST_CONTEXT("chunks of " << chunk << ", " << shards << " shards, number " << next)
        check_same(setup.dtype, train_all(setup), whole);
      }
    }
}

// Two blocks, as 256 MiB hold the logits of 256 tokens.
BOOST_AUTO_TEST_CASE(a_weight_gradient_of_several_blocks_is_that_of_logits_that_are_kept) {
  if (tests_async_device()) return;  // what touches all memory of an op once more takes too long
  constexpr std::int64_t kVocab = std::int64_t{1} << 18, kLength = 300;
  const auto trained = [&](std::int64_t chunk) {
    const auto device = tensor::make_cpu_device(2);
    Pipeline pipeline({.model = {.hidden_size = 8,
                                 .intermediate_size = 8,
                                 .num_hidden_layers = 1,
                                 .num_attention_heads = 2,
                                 .num_key_value_heads = 2,
                                 .head_dim = 4,
                                 .vocab_size = kVocab,
                                 .initializer_range = 0.3,
                                 .loss_chunk = chunk},
                       .layers_of_chunk = {1},
                       .stage_of_chunk = {0},
                       .microbatches = 2,
                       .seq_len = kLength},
                      *device, 11);
    const std::vector<Tokens> batch{random_tokens(kLength, kVocab, 1),
                                    random_tokens(kLength, kVocab, 2)};
    const StepResult step = pipeline.step({.lr = 1e-2}, 1, batch);
    const double evaluation = pipeline.evaluate(random_tokens(kLength, kVocab, 3));
    return std::tuple(step.losses, evaluation, pipeline.state());
  };
  const auto whole = trained(kLength);
  for (const std::int64_t chunk : {0, 100})
    if (rows_are_alike(tensor::DType::f32))
      BOOST_TEST((trained(chunk) == whole), chunk);
    else
      BOOST_TEST(std::abs(std::get<1>(trained(chunk)) - std::get<1>(whole)) < 1e-3, chunk);
}

BOOST_AUTO_TEST_SUITE_END()

#include <boost/test/unit_test.hpp>

#include "launch/commands/models/generate_command.h"
#include "tests/support/expect_error.h"

BOOST_AUTO_TEST_SUITE(generation_plan_test)

using namespace troupe;
using namespace troupe::test;
using launch::GenerateOptions;

namespace {

constexpr std::int64_t kMemory = std::int64_t{1} << 34;

const stages::ModelConfig kModel{.hidden_size = 64,
                                 .intermediate_size = 96,
                                 .num_hidden_layers = 4,
                                 .num_attention_heads = 4,
                                 .num_key_value_heads = 2,
                                 .head_dim = 16};

std::vector<std::vector<std::int32_t>> prompts(const std::vector<std::size_t>& lengths) {
  std::vector<std::vector<std::int32_t>> all;
  for (const std::size_t length : lengths) all.emplace_back(length, 7);
  return all;
}

GenerateOptions tokens(std::int64_t count) {
  GenerateOptions options;
  options.tokens = count;
  return options;
}

stages::GeneratorSpec plan(const GenerateOptions& options, const std::vector<std::size_t>& lengths,
                           const stages::ModelConfig& model = kModel) {
  return launch::plan_generation(options, model, prompts(lengths), kMemory);
}

}  // namespace

BOOST_AUTO_TEST_CASE(passes_over_prompts_are_equal_and_none_is_larger_than_512_rows) {
  BOOST_TEST(plan(tokens(1), {1}).prompt_rows == 1);
  BOOST_TEST(plan(tokens(1), {300, 200}).prompt_rows == 500);
  BOOST_TEST(plan(tokens(1), {300, 300}).prompt_rows == 300);
  BOOST_TEST(plan(tokens(1), {1025}).prompt_rows == 342);  // three passes
  BOOST_TEST(plan(tokens(1), std::vector<std::size_t>(1000, 4)).prompt_rows == 256);
}

BOOST_AUTO_TEST_CASE(a_cache_has_room_for_the_longest_text_without_its_last_token) {
  const stages::GeneratorSpec spec = plan(tokens(10), {5, 40, 3});
  BOOST_TEST(spec.capacity == 49);
  BOOST_TEST(spec.sequences == 3);
  BOOST_TEST(plan(tokens(1), std::vector<std::size_t>(100, 4)).sequences == 64);
  // A token has 2 x 4 layers x 2 heads x 16 float32: 1 KiB.
  BOOST_TEST(plan(tokens(1 << 18), std::vector<std::size_t>(100, 1)).sequences == 4);
  BOOST_TEST(plan(tokens(1 << 22), std::vector<std::size_t>(100, 1)).sequences == 1);
}

BOOST_AUTO_TEST_CASE(more_positions_than_a_table_has_are_refused_with_what_works) {
  stages::ModelConfig gpt2 = kModel;
  gpt2.kind = stages::ModelKind::gpt2;
  gpt2.num_key_value_heads = 4;
  gpt2.max_position_embeddings = 64;
  BOOST_TEST(plan(tokens(5), {60}, gpt2).capacity == 64);
  expect_error(ErrorKind::usage, {"60 tokens", "65 positions", "has 64", "--tokens 5"}, [&] {
    plan(tokens(6), {3, 60}, gpt2);
  });
  expect_error(ErrorKind::usage, {"positions", "at most 64 tokens"},
               [&] { plan(tokens(1), {65}, gpt2); });
  BOOST_TEST(plan(tokens(1000), {65}).capacity == 1064);  // rotary embeddings have no end
}

BOOST_AUTO_TEST_CASE(a_text_that_memory_has_no_room_for_is_refused_with_what_works) {
  const std::int64_t room = kMemory / 1024;
  BOOST_TEST(plan(tokens(room - 8), {9}).capacity == room);
  expect_error(ErrorKind::usage,
               {"16.0 GiB", "--tokens " + std::to_string(room - 8), "keys and values"},
               [&] { plan(tokens(room - 7), {9}); });
}

BOOST_AUTO_TEST_CASE(a_value_head_writes_nothing) {
  stages::ModelConfig model = kModel;
  model.value_head = true;
  expect_error(ErrorKind::data, {"value head"}, [&] { plan(tokens(1), {1}, model); });
}

BOOST_AUTO_TEST_CASE(shards_and_stages_that_are_not_possible_are_refused) {
  GenerateOptions options = tokens(1);
  options.pp = 5;
  expect_error(ErrorKind::usage, {"5 pipeline stages", "4 layers"}, [&] { plan(options, {1}); });
  options.pp = 1;
  options.tp = 3;
  expect_error(ErrorKind::usage, {"3"}, [&] { plan(options, {1}); });
  options.tp = 2;
  options.pp = 3;
  // The command's own process has the logits.
  BOOST_TEST((plan(options, {1}).part == stages::ModelPart{.pp = 3, .tp = 2, .stage = 2}));
}

BOOST_AUTO_TEST_SUITE_END()

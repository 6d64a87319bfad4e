// Shards compute the same bits however their layers lie on stages and whatever is computed again.

#include <boost/test/unit_test.hpp>

#include "tests/stages/sharded_training.h"
#include "tests/support/recomputes.h"

BOOST_AUTO_TEST_SUITE(stage_shard_bits_test)

using namespace troupe;
using namespace troupe::test;
using namespace troupe::test::sharded;

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
  const Setup olmo2{.kv_heads = 2, .family = "olmo2", .shards = 4};
  const Setup gemma2{.tied = true, .kv_heads = 2, .dropout = 0.1, .family = "gemma2", .shards = 4};
  const Setup gemma3{.tied = true, .kv_heads = 2, .family = "gemma3_text", .shards = 2};
  const Setup experts{.kv_heads = 2, .dropout = 0.1, .family = "qwen3_moe", .shards = 2};
  // Each of many streams and threads waits for the others often, so fewer runs must do there.
  const std::vector<Setup> setups =
      test::tests_async_device()
          ? std::vector{tied_llama, dropped_gpt2, olmo2}
          : std::vector{llama, tied_llama, gpt2, dropped_gpt2, olmo2, gemma2, gemma3, experts};
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
  const Setup olmo2{.kv_heads = 2, .family = "olmo2", .shards = 2};
  Setup gemma2{.kv_heads = 2, .dropout = 0.1, .family = "gemma2", .shards = 2};
  Setup packed_olmo2 = olmo2;
  packed_olmo2.packed = true;
  const Setup qwen3{.kv_heads = 2, .family = "qwen3", .shards = 2};
  const Setup granite{.kv_heads = 2, .family = "granite", .shards = 2};
  const Setup experts{.kv_heads = 2, .family = "qwen3_moe", .shards = 2};
  Setup whole = experts;
  whole.whole_experts = true;
  std::size_t next = 0;  // each way meets another cut with sequence parallelism than without
  for (Setup setup :
       {llama, gpt2, documents, olmo2, gemma2, packed_olmo2, qwen3, granite, experts, whole})
    for (const bool sequence_parallel : {false, true}) {
      if (setup.whole_experts && !sequence_parallel) continue;
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

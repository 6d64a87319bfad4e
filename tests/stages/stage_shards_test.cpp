// A model divided among tensor-parallel shards computes what one stage computes.

#include <boost/test/unit_test.hpp>

#include "tests/stages/sharded_training.h"

BOOST_AUTO_TEST_SUITE(stage_shards_test)

using namespace troupe;
using namespace troupe::test;
using namespace troupe::test::sharded;

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

BOOST_AUTO_TEST_CASE(shards_of_families_compute_what_one_stage_computes) {
  for (const char* family : kFamilies) BOOST_TEST_CONTEXT(family) {
      // Experts with few rows have small gradients, whose rounding AdamW magnifies.
      const double lr = has_experts(family) ? 1e-3 : 1e-2;
      check_all_shardings({.tied = true, .kv_heads = 2, .lr = lr, .family = family});
      check_all_shardings({.kv_heads = 12, .lr = lr, .family = family, .packed = true});
    }
}

BOOST_AUTO_TEST_CASE(shards_with_whole_experts_compute_what_one_stage_computes) {
  for (const char* family : {"mixtral", "qwen3_moe"}) {
    Setup setup{.tied = true, .kv_heads = 2, .lr = 1e-3, .family = family, .whole_experts = true};
    check_all_shardings(setup);
    setup.packed = true;
    check_all_shardings(setup);
  }
}

BOOST_AUTO_TEST_CASE(shards_of_adapters_compute_what_one_stage_computes) {
  for (const std::int64_t kv_heads : {12, 2}) {
    check_all_shardings({.tied = true, .kv_heads = kv_heads, .adapts = true});
    check_all_shardings(
        {.biases = true, .kv_heads = kv_heads, .adapts = true, .targets = {"q_proj", "v_proj"}});
    check_all_shardings(
        {.kv_heads = kv_heads, .packed = true, .adapts = true, .targets = {"down_proj", "k_proj"}});
    check_all_shardings({.kv_heads = kv_heads, .dropout = 0.2, .lr = 1e-3, .adapts = true});
  }
  for (const char* family : {"phi3", "gemma2", "olmo2"})
    check_all_shardings({.tied = true, .kv_heads = 2, .family = family, .adapts = true});
  check_all_shardings({.kind = stages::ModelKind::gpt2, .kv_heads = 12, .adapts = true});
}

// Capped logits are kept where the shards' loss overwrites them.
BOOST_AUTO_TEST_CASE(shards_cap_logits_in_parts) {
  check_all_shardings({.tied = true, .kv_heads = 2, .family = "gemma2", .loss_chunk = 5});
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

BOOST_AUTO_TEST_SUITE_END()

#include "stages/decoder/parameters/parameter_layout.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>
#include <set>

#include "stages/decoder/stage/transformer_stage.h"
#include "stages/model/sharding.h"
#include "tests/support/null_device.h"
#include "tests/support/seed.h"

// Tests where parameters and the buckets of divided states lie, over random stages.

namespace troupe::stages {

BOOST_AUTO_TEST_SUITE(parameter_layout_test)

namespace {

class RandomStages {
 public:
  explicit RandomStages(std::uint64_t seed) : random_(seed) {}

  StageSpec next() {
    const bool is_gpt2 = coin();
    const int layers = 1 + below(8);
    StageSpec spec{.model = {.kind = is_gpt2 ? ModelKind::gpt2 : ModelKind::llama,
                             .hidden_size = 16 * (1 + below(8)),
                             .intermediate_size = 8 * (1 + below(30)),
                             .num_hidden_layers = layers,
                             .num_attention_heads = 2,
                             .num_key_value_heads = is_gpt2 ? 2 : 1 + below(2),
                             .vocab_size = 2 + below(400),
                             .max_position_embeddings = 8},
                   .seq_len = 8};
    spec.model.head_dim = spec.model.hidden_size / 2;
    spec.model.tie_word_embeddings = coin();
    if (!is_gpt2) spec.model.attention_bias = coin(), spec.model.mlp_bias = coin();
    const int first = below(layers + 1), end = first + below(layers - first + 1);
    const int middle = first + below(end - first + 1);
    spec.chunks = {{.first_layer = 0, .end_layer = first, .embedding = true},
                   {.first_layer = middle, .end_layer = end, .head = end == layers}};
    if (spec.chunks[1].first_layer == end && !spec.chunks[1].head) spec.chunks.pop_back();
    const int count = 2 + below(4);
    spec.state = {.count = count, .index = below(count), .buckets = rule(), .twins = coin()};
    spec.state.gradients = coin();
    spec.state.weights = coin();
    spec.state.prefetch = below(4);
    spec.state.reshards = coin();
    return spec;
  }

 private:
  int below(int end) { return static_cast<int>(random_() % static_cast<std::uint64_t>(end)); }
  bool coin() { return below(2) == 0; }
  BucketRule rule() {
    if (coin()) return {.count = 1 + below(20)};
    return {.size = 1 + below(coin() ? 100 : 100'000)};
  }

  std::mt19937_64 random_;
};

/// Whether buckets of these lists may be whole at once: no two of them have one slot.
bool have_slots_of_their_own(std::span<const int> buckets, int StateBucket::*slot,
                             const Stage& stage) {
  std::set<int> slots;
  for (const int bucket : buckets)
    if (!slots.insert(stage.buckets()[static_cast<std::size_t>(bucket)].*slot).second) return false;
  return true;
}

template <typename Check>
void for_each_node(const Stage& stage, const Check& check) {
  for (int chunk = 0; chunk < stage.num_chunks(); ++chunk)
    for (const Pass pass :
         {Pass::forward, Pass::backward, Pass::input_gradient, Pass::weight_gradient})
      for (const NodeEffects& node : stage.nodes(chunk, pass)) check(pass, node);
}

}  // namespace

BOOST_AUTO_TEST_CASE(buckets_that_a_node_uses_lie_in_slots_of_their_own) {
  RandomStages stages(test::fresh_seed());
  for (int round = 0; round < 300; ++round) {
    test::NullDevice device;
    const StageSpec spec = stages.next();
    const auto stage = make_transformer_stage(spec, device);
    for_each_node(*stage, [&](Pass pass, const NodeEffects& node) {
      BOOST_TEST(have_slots_of_their_own(node.adds_to, &StateBucket::gradient_slot, *stage));
      const auto slot =
          pass == Pass::forward ? &StateBucket::forward_slot : &StateBucket::backward_slot;
      BOOST_TEST(have_slots_of_their_own(node.reads, slot, *stage));
      BOOST_TEST(node.adds_to.empty() == (node.gradients.empty() || !spec.state.gradients));
    });
  }
}

/// Else a bucket would take the slot of another one that has some of its gradients, or would get
/// ready only when two chunks have run.
BOOST_AUTO_TEST_CASE(no_bucket_takes_the_slot_of_one_that_lacks_gradients) {
  RandomStages stages(test::fresh_seed());
  for (int round = 0; round < 300; ++round) {
    test::NullDevice device;
    StageSpec spec = stages.next();
    spec.state.gradients = true;
    const auto stage = make_transformer_stage(spec, device);
    const auto buckets = stage->buckets();
    for (const Pass pass : {Pass::backward, Pass::weight_gradient})
      for (int chunk = 0; chunk < stage->num_chunks(); ++chunk) {
        std::vector<int> lacks(buckets.size()), writes(buckets.size());
        for (const NodeEffects& node : stage->nodes(chunk, pass))
          for (const int bucket : node.adds_to) ++lacks[static_cast<std::size_t>(bucket)];
        for (const NodeEffects& node : stage->nodes(chunk, pass)) {
          for (const int bucket : node.adds_to) writes[static_cast<std::size_t>(bucket)] = 1;
          std::set<int> open;
          for (std::size_t b = 0; b < buckets.size(); ++b)
            if (writes[b] && lacks[b] > 0) BOOST_TEST(open.insert(buckets[b].gradient_slot).second);
          for (const int bucket : node.adds_to) --lacks[static_cast<std::size_t>(bucket)];
        }
        BOOST_TEST(std::ranges::all_of(lacks, [](int left) { return left == 0; }));
      }
    // Each bucket belongs to one chunk.
    std::vector<int> chunk_of(buckets.size(), -1);
    for (int chunk = 0; chunk < stage->num_chunks(); ++chunk)
      for (const NodeEffects& node : stage->nodes(chunk, Pass::weight_gradient))
        for (const int b : node.adds_to) {
          int& of = chunk_of[static_cast<std::size_t>(b)];
          BOOST_TEST((of == -1 || of == chunk));
          of = chunk;
        }
  }
}

BOOST_AUTO_TEST_CASE(slots_hold_their_buckets_and_do_not_overlap) {
  RandomStages stages(test::fresh_seed());
  for (int round = 0; round < 1000; ++round) {
    const ParameterLayout layout = lay_out_parameters(stages.next());
    for (const BucketSlots* const slots :
         {&layout.gradient_slots, &layout.forward_slots, &layout.backward_slots}) {
      if (slots->slot_of.empty()) continue;
      BOOST_REQUIRE(slots->slot_of.size() == layout.buckets.size());
      for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
        const auto next = static_cast<std::size_t>(slots->slot_of[b]) + 1;
        const std::int64_t end = next < slots->offsets.size() ? slots->offsets[next] : slots->size;
        BOOST_TEST(slots->offset_of(b) + layout.buckets[b].size() <= end);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(seams_keep_products_together_and_units_apart) {
  RandomStages stages(test::fresh_seed());
  for (int round = 0; round < 1000; ++round) {
    const StageSpec spec = stages.next();
    const ParameterLayout layout = lay_out_parameters(spec);
    for (std::size_t i = 1; i < layout.entries.size(); ++i) {
      const auto &before = layout.entries[i - 1], &entry = layout.entries[i];
      if (entry.info.is_joined) BOOST_TEST(entry.bucket == before.bucket);
      if (spec.state.weights)
        BOOST_TEST((entry.bucket == before.bucket) == (entry.info.layer == before.info.layer));
      BOOST_TEST((entry.bucket == before.bucket || entry.bucket == before.bucket - 1));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_a_replica_keeps_lies_apart) {
  RandomStages stages(test::fresh_seed());
  for (int round = 0; round < 1000; ++round) {
    const StageSpec spec = stages.next();
    const ParameterLayout layout = lay_out_parameters(spec);
    std::vector<std::pair<std::int64_t, std::int64_t>> runs;
    for (std::size_t b = 0; b < layout.kept.size(); ++b) {
      const auto& kept = layout.kept[b];
      runs.emplace_back(kept.offset, kept.size);
      if (spec.state.twins && static_cast<int>(b) != layout.head_use)
        runs.emplace_back(kept.twin_offset, kept.twin_size);
    }
    std::erase_if(runs, [](const auto& run) { return run.second == 0; });
    std::ranges::sort(runs);
    std::int64_t end = 0;
    for (const auto& [offset, size] : runs) {
      BOOST_TEST(offset >= end);
      end = offset + size;
    }
    BOOST_TEST(end <= layout.kept_size);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::stages

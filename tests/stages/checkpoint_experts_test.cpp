// Checkpoints of replicas that share experts out.

#include <boost/test/unit_test.hpp>
#include <memory>

#include "stages/decoder/stage/transformer_stage.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "tensor/values/random.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_device.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(checkpoint_experts_test)

namespace {

namespace fs = std::filesystem;
using stages::ModelKind;
using stages::Parameter;

constexpr std::uint64_t kSeed = 5;

stages::ModelConfig model_of(ModelKind kind) {
  return {.kind = kind,
          .hidden_size = 16,
          .intermediate_size = 24,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 4,
          .vocab_size = 32,
          .experts = {.count = 4, .per_token = 2, .width = 24}};
}

/// One of `dp` replicas of a whole model, `ep` of which share the experts out. Filled, it has
/// weights and moments that follow from names.
std::unique_ptr<stages::Stage> stage_of(const stages::ModelConfig& model, int ep, int dp,
                                        int replica, tensor::Device& device, bool filled) {
  stages::StageSpec spec{.model = model,
                         .chunks = {{.end_layer = 2, .embedding = true, .head = true}},
                         .sharding = {.ep = ep, .ep_member = replica % ep},
                         .seq_len = 8,
                         .global_tokens = 8};
  if (dp > ep) spec.state = {.count = dp, .index = replica, .buckets = {.size = 2000}, .ep = ep};
  auto stage = stages::make_transformer_stage(spec, device);
  if (!filled) return stage;
  stages::initialize(*stage, model, kSeed, 1);
  for (const Parameter& parameter : stage->parameters()) {
    const tensor::Region kept = parameter.region_of(parameter.slice);
    for (const auto& [moment, name] :
         {std::pair(parameter.exp_avg, ".1"), std::pair(parameter.exp_avg_sq, ".2")}) {
      const tensor::Random random(kSeed, parameter.name + name);
      const tensor::Tensor x = opened(moment);
      for (std::int64_t i = 0; i < x.num_elements(); ++i)
        x.as<float>()[i] = static_cast<float>(
            random.uniform(static_cast<std::uint64_t>(kept.row * kept.columns + i)));
    }
  }
  return stage;
}

fs::path written(const fs::path& checkpoints, const stages::ModelConfig& model, int ep, int dp) {
  const auto device = make_test_device();
  const fs::path dir = stages::unfinished_checkpoint(checkpoints, 7);
  for (int replica = 0; replica < std::max(ep, dp > ep ? dp : 1); ++replica) {
    const auto stage = stage_of(model, ep, dp, replica, *device, true);
    stages::write_checkpoint_part(dir, *stage, model,
                                  {.sharding = {.ep = ep, .ep_member = replica % ep}});
  }
  stages::CheckpointInfo info = small_info();
  info.step = 7;
  info.model = model;
  stages::finish_checkpoint(dir, info, 1);
  return checkpoints / "step-7";
}

struct Replicas {
  int ep, dp;
};
constexpr Replicas kAll[]{{1, 1}, {2, 2}, {4, 4}, {2, 4}, {2, 6}};

}  // namespace

BOOST_AUTO_TEST_CASE(any_number_of_replicas_writes_and_reads_the_experts) {
  const auto device = make_test_device();
  for (const ModelKind kind : {ModelKind::mixtral, ModelKind::qwen3_moe}) {
    const stages::ModelConfig model = model_of(kind);
    const TempDir one;
    const fs::path expected = written(one.path(), model, 1, 1);
    for (const auto& [ep, dp] : kAll) {
      const TempDir temp;
      const fs::path dir = written(temp.path(), model, ep, dp);
      const auto reader = stages::CheckpointReader::open(dir);
      const auto other = stages::CheckpointReader::open(expected);
      reader->verify();
      for (const auto& [read_ep, read_dp] : kAll)
        for (int replica = 0; replica < read_dp; ++replica) {
          const auto want = stage_of(model, read_ep, read_dp, replica, *device, true);
          for (const stages::CheckpointReader* from : {reader.get(), other.get()}) {
            const auto got = stage_of(model, read_ep, read_dp, replica, *device, false);
            from->load(*got, /*weights_only=*/false);
            for (std::size_t i = 0; i < got->parameters().size(); ++i) {
              const Parameter &a = got->parameters()[i], &b = want->parameters()[i];
              BOOST_TEST(same_bytes(a.kept_weight, b.kept_weight), a.name);
              BOOST_TEST(same_bytes(a.exp_avg, b.exp_avg), a.name);
              BOOST_TEST(same_bytes(a.exp_avg_sq, b.exp_avg_sq), a.name);
            }
          }
        }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

#include <boost/test/unit_test.hpp>
#include <set>
#include <utility>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/copies/hugging_face.h"
#include "tests/support/adapter_files.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/expect_error.h"

// Checkpoints of adapters, which are directories of PEFT.

BOOST_AUTO_TEST_SUITE(adapter_checkpoint_test)

using namespace troupe;
using namespace troupe::stages;
using nlohmann::json;
using test::content_of;
using test::Cuts;
using test::expect_error;
using test::FakeStage;
using test::llama_json;
using test::raw_tensors;
using test::RawTensors;
using test::Targets;
using test::write_model;

namespace fs = std::filesystem;

namespace {

/// A checkpoint of an adapter that began with the fixture's base.
struct Saved : test::AdapterFiles {
  CheckpointInfo info;

  fs::path saved(const Cuts& cuts, int shards, const Targets& targets = {"down_proj", "q_proj"}) {
    peft(llama_json(), {"q_proj"});
    info = test::small_info();
    info.model.adapter = {
        .rank = 2, .alpha = 6, .targets = targets, .base = (dir / "base").string()};
    const ModelSource source = CheckpointReader::open(dir / "base")->source();
    const fs::path unfinished = unfinished_checkpoint(dir / "run", info.step);
    const int num_parts = static_cast<int>(cuts.size()) - 1;
    for (int part = 0; part < num_parts; ++part)
      for (int shard = 0; shard < shards; ++shard) {
        const Sharding sharding{.size = shards, .shard = shard};
        FakeStage stage(info.model, cuts[static_cast<std::size_t>(part)],
                        cuts[static_cast<std::size_t>(part) + 1], sharding);
        stage.fill();
        write_checkpoint_part(unfinished, stage, info.model, {part, num_parts, sharding});
      }
    finish_checkpoint(unfinished, info, num_parts, source);
    return dir / "run/step-7";
  }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_checkpoint_is_a_directory_of_peft, Saved) {
  const fs::path one = saved({0, 3}, 1);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(one))
    names.insert(entry.path().filename().string());
  BOOST_TEST((names == std::set<std::string>{"adapter_config.json", "adapter_model.safetensors",
                                             "optimizer-00001-of-00001.safetensors",
                                             "optimizer.safetensors.index.json", "state.json"}));
  const json config = json::parse(content_of(one / "adapter_config.json"));
  BOOST_TEST(config["peft_type"] == "LORA");
  BOOST_TEST(config["task_type"] == "CAUSAL_LM");
  BOOST_TEST(config["r"] == 2);
  BOOST_TEST(config["lora_alpha"].dump() == "6");
  BOOST_TEST(config["bias"] == "none");
  BOOST_TEST(config["base_model_name_or_path"] == (dir / "base").string());
  BOOST_TEST(config["target_modules"] == (json{"down_proj", "q_proj"}));
  const RawTensors tensors = raw_tensors(one / "adapter_model.safetensors");
  BOOST_TEST(tensors.size() == 12u);
  const std::string name = "base_model.model.model.layers.1.mlp.down_proj.lora_";
  BOOST_TEST((tensors.at(name + "A.weight").shape == std::vector<std::int64_t>{2, 12}));
  BOOST_TEST((tensors.at(name + "B.weight").shape == std::vector<std::int64_t>{8, 2}));
  for (const auto& [key, raw] : raw_tensors(one / "optimizer-00001-of-00001.safetensors"))
    BOOST_TEST(key.starts_with("base_model.model."), key);
}

BOOST_FIXTURE_TEST_CASE(any_layout_reads_what_any_other_wrote, Saved) {
  for (const auto& [cuts, shards] : {std::pair(Cuts{0, 3}, 1), {Cuts{0, 1, 3}, 2}}) {
    fs::remove_all(dir / "run");
    const auto reader = CheckpointReader::open(saved(cuts, shards));
    reader->verify();
    BOOST_TEST((reader->info().adapter == info.model.adapter));
    BOOST_TEST(reader->info().next_sample == info.next_sample);
    for (int shard = 0; shard < 2; ++shard) {
      const Sharding sharding{.size = 2, .shard = shard};
      FakeStage read(info.model, 0, 3, sharding), expected(info.model, 0, 3, sharding);
      expected.fill();
      reader->load(read, false);
      for (std::size_t i = 0; i < read.parameters().size(); ++i) {
        const Parameter &a = read.parameters()[i], &b = expected.parameters()[i];
        if (a.update.frozen) continue;
        BOOST_TEST(test::same_bytes(a.weight, b.weight), a.name);
        BOOST_TEST(test::same_bytes(a.exp_avg, b.exp_avg), a.name);
        BOOST_TEST(test::same_bytes(a.exp_avg_sq, b.exp_avg_sq), a.name);
      }
    }
  }
}

BOOST_FIXTURE_TEST_CASE(an_adapter_of_another_base_is_refused_by_its_sum, Saved) {
  const fs::path one = saved({0, 3}, 1);
  const std::string sum = json::parse(content_of(one / "state.json"))["base"]["xxh64"];
  // Another form of the same weights is the same base.
  import_model(dir / "base", dir / "imported");
  BOOST_CHECK_NO_THROW(CheckpointReader::open(one, dir / "imported"));
  RawTensors tensors = test::tensors_of(model);
  tensors.at("model.layers.1.mlp.up_proj.weight").bytes[2] ^= 1;
  write_model(dir / "base", llama_json(), tensors);
  expect_error(ErrorKind::data, {"other weights", (dir / "base").string(), sum},
               [&] { CheckpointReader::open(one); });
}

BOOST_FIXTURE_TEST_CASE(the_adapter_alone_is_read_without_its_base, Saved) {
  const fs::path one = saved({0, 3}, 1);
  fs::remove_all(dir / "base");
  const auto reader = CheckpointReader::open_adapter(one, info.model);
  FakeStage stage(info.model, 0, 3), expected(info.model, 0, 3);
  expected.fill();
  reader->load(stage, false);
  for (std::size_t i = 0; i < stage.parameters().size(); ++i) {
    const Parameter &a = stage.parameters()[i], &b = expected.parameters()[i];
    const bool is_adapter = a.name.starts_with(kAdapterPrefix);
    BOOST_TEST(test::same_bytes(a.weight, b.weight) == is_adapter, a.name);
    BOOST_TEST((!is_adapter || test::same_bytes(a.exp_avg, b.exp_avg)), a.name);
  }
  ModelConfig other = info.model;
  other.hidden_size = 12;
  expect_error(ErrorKind::data, {"lora_A", "[2, 8]", "[2, 12]"},
               [&] { CheckpointReader::open_adapter(one, other); });
}

BOOST_FIXTURE_TEST_CASE(a_manifest_that_says_another_adapter_is_refused, Saved) {
  const auto reader = CheckpointReader::open(saved({0, 3}, 1));
  ModelConfig other = info.model;
  other.adapter->dropout = 0.5;
  BOOST_CHECK_NO_THROW(reader->check_model(other));
  other.adapter->rank = 4;
  expect_error(ErrorKind::data, {"adapter.rank is 2", "manifest's is 4"},
               [&] { reader->check_model(other); });
  other = info.model;
  other.adapter->targets = {"q_proj"};
  expect_error(ErrorKind::data, {"adapter.targets is down_proj, q_proj"},
               [&] { reader->check_model(other); });
}

BOOST_FIXTURE_TEST_CASE(without_an_adapter_to_read_that_of_a_stage_stays, Saved) {
  saved({0, 3}, 1);
  FakeStage stage(info.model, 0, 3), drawn(info.model, 0, 3);
  stage.fill();
  drawn.fill();
  CheckpointReader::open(dir / "base")->load(stage, true);
  for (std::size_t i = 0; i < stage.parameters().size(); ++i) {
    const Parameter &a = stage.parameters()[i], &b = drawn.parameters()[i];
    BOOST_TEST(test::same_bytes(a.weight, b.weight) == a.name.starts_with(kAdapterPrefix), a.name);
  }
}

BOOST_AUTO_TEST_SUITE_END()

// Checkpoints that several shards of a stage write and read.

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <thread>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/safetensors/safetensors.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_device.h"

BOOST_AUTO_TEST_SUITE(checkpoint_shards_test)

using namespace troupe;
using namespace troupe::stages;
using test::Cuts;
using test::expect_error;
using test::FakeStage;
using test::write_checkpoint;

namespace fs = std::filesystem;

namespace {

const std::string kWeights = "model-00001-of-00001.safetensors";
const std::string kOptimizer = "optimizer-00001-of-00001.safetensors";
const std::string kQuery = "model.layers.1.self_attn.q_proj.weight";
const std::string kDown = "model.layers.1.mlp.down_proj.weight";

/// A model that 2, 3 and 4 shards can divide. They share key and value heads, and pad a vocabulary
/// of 13 by some rows; of 5, the last of four shards has padding alone.
ModelConfig model_of(std::int64_t vocab_size, bool tied) {
  return {.hidden_size = 12,
          .intermediate_size = 24,
          .num_hidden_layers = 3,
          .num_attention_heads = 12,
          .num_key_value_heads = 1,
          .head_dim = 2,
          .vocab_size = vocab_size,
          .tie_word_embeddings = tied};
}

ModelConfig gpt2_of(std::int64_t vocab_size, bool tied) {
  ModelConfig model = model_of(vocab_size, tied);
  model.kind = ModelKind::gpt2;
  model.num_key_value_heads = 12;
  model.head_dim = 1;
  model.max_position_embeddings = 70;
  return model;
}

/// Each head's query, key and value lie in turns.
ModelConfig internlm2_of(std::int64_t vocab_size) {
  ModelConfig model = model_of(vocab_size, false);
  model.kind = ModelKind::internlm2;
  model.num_key_value_heads = 12;
  model.attention_bias = true;
  return model;
}

CheckpointInfo info_of(const ModelConfig& model) {
  CheckpointInfo info = test::small_info();
  info.model = model;
  return info;
}

/// A filled shard of a whole model.
struct Shard : FakeStage {
  Shard(const ModelConfig& model, int size, int shard)
      : FakeStage(model, 0, 3, {.size = size, .shard = shard}) {
    fill();
  }
};

void write_shard(const fs::path& dir, const ModelConfig& model, int size, int shard) {
  write_checkpoint_part(dir, Shard(model, size, shard), model,
                        {.sharding = {.size = size, .shard = shard}});
}

/// Loads every shard of every stage and compares it with what was written, padding included.
void check_load(const CheckpointReader& reader, const Cuts& cuts, int shards) {
  const ModelConfig& model = reader.info().model;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
    for (Sharding sharding{.size = shards}; sharding.shard < shards; ++sharding.shard) {
      FakeStage loaded(model, cuts[i], cuts[i + 1], sharding);
      FakeStage expected(model, cuts[i], cuts[i + 1], sharding);
      expected.fill();
      reader.load(loaded, /*weights_only=*/false);
      for (std::size_t p = 0; p < loaded.parameters().size(); ++p) {
        const Parameter &got = loaded.parameters()[p], &want = expected.parameters()[p];
        BOOST_TEST(test::same_bytes(got.weight, want.weight), got.name);
        BOOST_TEST(test::same_bytes(got.exp_avg, want.exp_avg), got.name);
        BOOST_TEST(test::same_bytes(got.exp_avg_sq, want.exp_avg_sq), got.name);
      }
    }
}

/// What a safetensors file holds after its header.
std::string data_of(const fs::path& path) {
  const std::string content = test::content_of(path);
  std::uint64_t length = 0;
  content.copy(reinterpret_cast<char*>(&length), sizeof length);
  return content.substr(sizeof length + length);
}

/// Bytes that this thread has read from files until now, as the kernel counts them.
std::uint64_t bytes_read() {
  std::ifstream file("/proc/thread-self/io");
  std::string key;
  std::uint64_t bytes = 0;
  file >> key >> bytes;
  BOOST_TEST_REQUIRE(key == "rchar:");
  return bytes;
}

struct Fixture {
  test::TempDir run;
  ModelConfig model = model_of(13, false);
  fs::path dir = run / "step-7";

  /// Changes a byte of the element of a tensor of the checkpoint.
  void damage(const std::string& file_name, const std::string& name, std::int64_t element) {
    const SafetensorsFile file = SafetensorsFile::open(dir / file_name);
    const auto entry = std::ranges::find(file.tensors(), name, &TensorEntry::name);
    std::string content = test::content_of(dir / file_name);
    const std::uint64_t data = file.size() - file.tensors().back().end;
    content.at(data + entry->begin + static_cast<std::uint64_t>(element) * 4) ^= 1;
    test::write_file(dir / file_name, content);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(checkpoint_shards, Fixture)

/// Replicas that divide the state write the tensors that one would, and read their slices of any.
BOOST_AUTO_TEST_CASE(replicas_write_and_read_slices) {
  for (const ModelConfig& saved : {model_of(13, false), gpt2_of(13, true), internlm2_of(13)})
    for (const int shards : {1, 2, 4})
      for (const int replicas : {2, 3}) {
        const test::TempDir temp;
        const fs::path written = unfinished_checkpoint(temp.path(), 7);
        const auto each_rank = [&](const auto& body) {
          for (int shard = 0; shard < shards; ++shard)
            for (int replica = 0; replica < replicas; ++replica)
              body(Sharding{.size = shards, .shard = shard},
                   test::FakeReplica{.index = replica, .count = replicas});
        };
        each_rank([&](const Sharding& sharding, const test::FakeReplica& replica) {
          FakeStage stage(saved, 0, 3, sharding, replica);
          stage.fill();
          write_checkpoint_part(written, stage, saved, {.sharding = sharding});
        });
        finish_checkpoint(written, info_of(saved), 1);
        const auto reader = CheckpointReader::open(temp.path() / "step-7");
        reader->verify();
        for (const int readers : {1, 2, 3}) check_load(*reader, {0, 3}, readers);
        each_rank([&](const Sharding& sharding, const test::FakeReplica& replica) {
          FakeStage loaded(saved, 0, 3, sharding, replica);
          FakeStage expected(saved, 0, 3, sharding, replica);
          expected.fill();
          reader->load(loaded, /*weights_only=*/false);
          for (std::size_t p = 0; p < loaded.parameters().size(); ++p) {
            const Parameter &a = loaded.parameters()[p], &b = expected.parameters()[p];
            const auto slice = [](const Parameter& p) { return p.rows_of(p.slice, p.weight); };
            BOOST_TEST(test::same_bytes(slice(a), slice(b)), a.name);
            BOOST_TEST(test::same_bytes(a.exp_avg, b.exp_avg), a.name);
            BOOST_TEST(test::same_bytes(a.exp_avg_sq, b.exp_avg_sq), a.name);
          }
        });
      }
}

BOOST_AUTO_TEST_CASE(any_shards_read_what_any_shards_wrote) {
  for (const ModelConfig& written : {model_of(13, false), model_of(13, true), model_of(5, false),
                                     gpt2_of(13, false), gpt2_of(13, true), internlm2_of(13)})
    for (const Cuts& cuts : {Cuts{0, 3}, Cuts{0, 1, 3}})
      for (const int writers : {1, 2, 3, 4}) {
        const test::TempDir other;
        const CheckpointInfo info = info_of(written);
        const auto reader =
            CheckpointReader::open(write_checkpoint(other.path(), info, cuts, writers));
        BOOST_CHECK_NO_THROW(reader->verify());
        for (const int readers : {1, 2, 3, 4}) check_load(*reader, {0, 2, 3}, readers);
      }
}

BOOST_AUTO_TEST_CASE(tensors_do_not_tell_how_many_shards_wrote_them) {
  const test::TempDir one, three;
  write_checkpoint(one.path(), info_of(model), {0, 3}, 1);
  write_checkpoint(three.path(), info_of(model), {0, 3}, 3);
  for (const std::string& name : {kWeights, kOptimizer})
    BOOST_TEST(data_of(three / "step-7" / name) == data_of(one / "step-7" / name));
}

BOOST_AUTO_TEST_CASE(gpt2_s_matrices_are_transposed_and_its_qkv_joined) {
  const ModelConfig gpt2 = gpt2_of(13, true);
  const std::string layer = "transformer.h.1.";
  for (const int shards : {1, 3}) {
    const test::TempDir other;
    const fs::path path = write_checkpoint(other.path(), info_of(gpt2), {0, 3}, shards) / kWeights;
    const SafetensorsFile file = SafetensorsFile::open(path);
    const auto read = [&](const std::string& name) {
      const auto entry = std::ranges::find(file.tensors(), layer + name, &TensorEntry::name);
      std::vector<float> values(entry->num_bytes() / sizeof(float));
      file.read(*entry, entry->whole, std::as_writable_bytes(std::span(values)));
      return values;
    };
    Shard whole(gpt2, 1, 0);
    const auto expected = [&](const std::string& name, std::int64_t out, std::int64_t in) {
      const auto found = std::ranges::find(whole.parameters(), layer + name, &Parameter::name);
      return test::opened(found->weight).as<float>()[out * found->weight.shape[1] + in];
    };
    const auto c_attn = read("attn.c_attn.weight"), c_proj = read("mlp.c_proj.weight");
    for (std::int64_t in = 0; in < 12; ++in)
      for (std::int64_t out = 0; out < 12; ++out) {
        const auto at = static_cast<std::size_t>(in * 36 + out);
        BOOST_TEST(c_attn.at(at) == expected("attn.c_attn.q.weight", out, in));
        BOOST_TEST(c_attn.at(at + 12) == expected("attn.c_attn.k.weight", out, in));
        BOOST_TEST(c_attn.at(at + 24) == expected("attn.c_attn.v.weight", out, in));
      }
    for (std::int64_t in = 0; in < 24; ++in)
      for (std::int64_t out = 0; out < 12; ++out)
        BOOST_TEST(c_proj.at(static_cast<std::size_t>(in * 12 + out)) ==
                   expected("mlp.c_proj.weight", out, in));
    const auto bias = read("attn.c_attn.bias");
    const auto k =
        std::ranges::find(whole.parameters(), layer + "attn.c_attn.k.bias", &Parameter::name);
    for (std::size_t i = 0; i < 12; ++i)
      BOOST_TEST(bias.at(12 + i) == test::opened(k->weight).as<float>()[i]);
  }
}

BOOST_AUTO_TEST_CASE(a_damaged_region_of_joined_columns_is_named) {
  model = gpt2_of(13, false);
  write_checkpoint(run.path(), info_of(model), {0, 3}, 4);
  const std::string name = "transformer.h.1.attn.c_attn.weight";
  damage(kWeights, name, 2 * 36 + 12 + 5);  // row 2, of the keys of shard 1
  expect_error(ErrorKind::data, {kWeights, "damaged", name + "[0:12,15:3]"},
               [&] { CheckpointReader::open(dir)->verify(); });
  Shard sound(model, 4, 2), hurt(model, 4, 1);
  const auto reader = CheckpointReader::open(dir);
  BOOST_CHECK_NO_THROW(reader->load(sound, true));
  expect_error(ErrorKind::data, {kWeights, "damaged"}, [&] { reader->load(hurt, true); });
}

BOOST_AUTO_TEST_CASE(one_shard_writes_a_checksum_for_each_whole_tensor) {
  const Shard stage(model, 1, 0);
  std::vector<NamedTensor> weights;
  for (const Parameter& parameter : stage.parameters())
    weights.push_back({parameter.name, test::opened(parameter.weight)});
  write_safetensors(run / "plain", weights);
  write_shard(run.path(), model, 1, 0);
  BOOST_TEST(test::content_of(run / kWeights) == test::content_of(run / "plain"));
}

BOOST_AUTO_TEST_CASE(shards_may_write_at_the_same_time) {
  write_checkpoint(run.path(), info_of(model), {0, 3}, 4);
  for (int round = 0; round < 8; ++round) {
    const test::TempDir other;
    const fs::path unfinished = unfinished_checkpoint(other.path(), 7);
    std::vector<std::jthread> threads;
    for (int shard = 0; shard < 4; ++shard)
      threads.emplace_back([&, shard] { write_shard(unfinished, model, 4, shard); });
    threads.clear();
    finish_checkpoint(unfinished, info_of(model), 1, test::fresh_source(info_of(model)));
    for (const std::string& name : {kWeights, kOptimizer})
      BOOST_TEST(test::content_of(other / "step-7" / name) == test::content_of(dir / name));
    BOOST_TEST(std::distance(fs::directory_iterator(other / "step-7"), {}) ==
               std::distance(fs::directory_iterator(dir), {}));
  }
}

BOOST_AUTO_TEST_CASE(bytes_are_counted_where_they_are_written) {
  std::uint64_t all = 0;
  for (int shard = 0; shard < 4; ++shard) {
    std::atomic<std::uint64_t> written{0};
    write_checkpoint_part(run.path(), Shard(model, 4, shard), model,
                          {.sharding = {.size = 4, .shard = shard}}, &written);
    all += written;
  }
  BOOST_TEST(all == static_cast<std::uint64_t>(3 * 4 * num_parameters(model)));
}

BOOST_AUTO_TEST_CASE(a_shard_reads_its_own_bytes_alone) {
  for (const ModelConfig& written : {model, gpt2_of(13, true)}) {
    const test::TempDir other;
    const auto reader =
        CheckpointReader::open(write_checkpoint(other.path(), info_of(written), {0, 3}, 4));
    Shard shard(written, 4, 2);
    std::uint64_t own = 0;
    for (const Parameter& parameter : shard.parameters())
      own += static_cast<std::uint64_t>(3 * 4 * parameter.region.num_elements());
    const std::uint64_t idle = bytes_read(), before = bytes_read();
    reader->load(shard, /*weights_only=*/false);
    const std::uint64_t after = bytes_read();
    const std::uint64_t of_counting = before - idle;
    BOOST_TEST(after - before - of_counting <= own + 16);  // counting reads numbers of more digits
    BOOST_TEST(after - before >= own);
  }
}

BOOST_AUTO_TEST_CASE(a_damaged_region_is_named_and_others_are_read) {
  write_checkpoint(run.path(), info_of(model), {0, 3}, 4);
  damage(kWeights, kQuery, 6 * 12);  // the first element of shard 1, which has rows 6 to 11
  const auto reader = CheckpointReader::open(dir);
  for (const int shard : {0, 2, 3}) {
    Shard sound(model, 4, shard);
    BOOST_CHECK_NO_THROW(reader->load(sound, false));
  }
  const std::vector<std::string> words = {kWeights, "damaged", kQuery + "[6:6,0:12]"};
  Shard hurt(model, 4, 1);
  expect_error(ErrorKind::data, words, [&] { reader->load(hurt, false); });
  expect_error(ErrorKind::data, words, [&] { reader->verify(); });
  // Readers of another number verify all that they read, although they use a part of it.
  Shard reads_rows_8_to_15(model, 3, 1);
  expect_error(ErrorKind::data, words, [&] { reader->load(reads_rows_8_to_15, true); });
}

BOOST_AUTO_TEST_CASE(a_damaged_region_of_columns_is_named) {
  write_checkpoint(run.path(), info_of(model), {0, 3}, 4);
  damage(kOptimizer, kDown + ".exp_avg", 2 * 24 + 11);  // row 2, column 11
  expect_error(ErrorKind::data, {kOptimizer, "damaged", kDown + ".exp_avg[0:12,6:6]"},
               [&] { CheckpointReader::open(dir)->verify(); });
}

BOOST_AUTO_TEST_CASE(a_shard_that_did_not_write_is_found_by_its_region) {
  for (const int missing : {0, 1, 3}) {
    const fs::path unfinished = unfinished_checkpoint(run.path(), 7);
    for (int shard = 0; shard < 4; ++shard)
      if (shard != missing) write_shard(unfinished, model, 4, shard);
    const std::string rows = std::to_string(4 * missing) + ":" + (missing == 3 ? "1" : "4");
    expect_error(ErrorKind::data,
                 {kWeights, "lm_head.weight[" + rows + ",0:12]", "was not written"},
                 [&] { finish_checkpoint(unfinished, info_of(model), 1); });
  }
  BOOST_TEST(complete_checkpoints(run.path()).empty());
}

BOOST_AUTO_TEST_CASE(what_an_earlier_attempt_has_left_does_not_complete_a_later_one) {
  const fs::path stale = unfinished_checkpoint(run.path(), 7);
  for (int shard = 0; shard < 4; ++shard) write_shard(stale, model, 4, shard);
  const fs::path unfinished = unfinished_checkpoint(run.path(), 7);
  for (int shard = 0; shard < 3; ++shard) write_shard(unfinished, model, 4, shard);
  expect_error(ErrorKind::data, {kWeights, "was not written"},
               [&] { finish_checkpoint(unfinished, info_of(model), 1); });
}

BOOST_AUTO_TEST_CASE(shards_that_disagree_on_the_file_are_refused) {
  write_shard(run.path(), model, 2, 0);
  expect_error(ErrorKind::internal, {kWeights, "another layout"},
               [&] { write_shard(run.path(), model, 4, 1); });
}

BOOST_AUTO_TEST_CASE(a_file_cut_within_a_region_is_refused) {
  const auto reader =
      CheckpointReader::open(write_checkpoint(run.path(), info_of(model), {0, 3}, 2));
  fs::resize_file(dir / kWeights, fs::file_size(dir / kWeights) - 4);
  Shard shard(model, 2, 1);
  expect_error(ErrorKind::data, {kWeights, "too early"}, [&] { reader->load(shard, true); });
  expect_error(ErrorKind::data, {kWeights, "not a complete safetensors file"},
               [&] { CheckpointReader::open(dir); });
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()

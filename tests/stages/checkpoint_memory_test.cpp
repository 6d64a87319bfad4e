// Writing and reading a checkpoint takes one buffer, however large its tensors are.

#include <boost/test/unit_test.hpp>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/safetensors/region_bytes.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/measured_new.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(checkpoint_memory_test)

using namespace troupe;
using namespace troupe::stages;
using test::FakeStage;
using test::live_bytes;
using test::most_bytes;

namespace {

/// The most memory that is taken at once during the call, in bytes.
template <typename Call>
std::size_t most_memory(Call&& call) {
  const std::size_t before = live_bytes;
  most_bytes = before;
  call();
  return most_bytes - before;
}

/// A model whose matrices have several blocks each.
CheckpointInfo large_info(ModelKind kind) {
  CheckpointInfo info = test::small_info();
  info.model = {.kind = kind,
                .hidden_size = 240,
                .intermediate_size = 1200,
                .num_hidden_layers = 1,
                .num_attention_heads = 12,
                .num_key_value_heads = 12,
                .head_dim = 20,
                .vocab_size = 1201,
                .max_position_embeddings = 64,
                .tie_word_embeddings = true};
  return info;
}

/// Names, a header and paths, and what a stream of a device takes.
constexpr std::size_t kSmallBytes = 96 << 10;

/// Checks what a checkpoint takes, if writing takes a buffer of so many bytes.
void check_memory(ModelKind kind, std::size_t writing_bytes) {
  const test::TempDir run;
  const CheckpointInfo info = large_info(kind);
  BOOST_TEST(4 * parameters_of(info.model).front().shape.num_elements() > 4 * kBlockBytes);
  const auto dir = unfinished_checkpoint(run.path(), info.step);
  for (Sharding sharding{.size = 2}; sharding.shard < sharding.size; ++sharding.shard) {
    FakeStage shard(info.model, 0, 1, sharding);
    BOOST_TEST(most_memory([&] {
                 write_checkpoint_part(dir, shard, info.model, {.sharding = sharding});
               }) <= writing_bytes + kSmallBytes);
  }
  finish_checkpoint(dir, info, 1);
  const auto reader = CheckpointReader::open(run / "step-7");
  for (const int shards : {1, 2, 3}) {
    FakeStage shard(info.model, 0, 1, {.size = shards, .shard = shards - 1});
    BOOST_TEST(most_memory([&] { reader->load(shard, false); }) <= kBlockBytes + kSmallBytes);
  }
  BOOST_TEST(most_memory([&] { reader->verify(); }) <= kBlockBytes + kSmallBytes);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_checkpoint_takes_one_buffer_however_large_its_tensors) {
  check_memory(ModelKind::llama, 0);
}

BOOST_AUTO_TEST_CASE(matrices_are_turned_in_one_buffer) {
  check_memory(ModelKind::gpt2, kBlockBytes);
}

BOOST_AUTO_TEST_SUITE_END()

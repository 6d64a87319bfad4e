#include "actors/topology/memory/gpu_memory.h"

#include <boost/test/unit_test.hpp>
#include <map>
#include <utility>

#include "actors/topology/memory/memory_plan.h"
#include "tests/support/run_specs.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(gpu_memory_test)

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

stages::StageSpec attention_of(std::int64_t micro, std::int64_t seq_len) {
  stages::StageSpec spec{.micro = micro, .seq_len = seq_len};
  spec.model = {.hidden_size = 4096,
                .num_hidden_layers = 1,
                .num_attention_heads = 32,
                .num_key_value_heads = 8,
                .head_dim = 128,
                .vocab_size = 64,
                .dtype = tensor::DType::bf16};
  return spec;
}

/// The backward's part in MiB, without the 4 bytes for each row of a head.
std::int64_t backward_mib(const stages::StageSpec& spec, bool deterministic) {
  return (workspace_on_gpu(spec, deterministic) - 64 * kMiB) / kMiB;
}

}  // namespace

// The sizes that plans of cuDNN 9.19 for sm_90 tell.
BOOST_AUTO_TEST_CASE(the_workspace_of_attention_is_that_of_its_plans) {
  BOOST_TEST(backward_mib(attention_of(1, 1024), true) == 80);
  BOOST_TEST(backward_mib(attention_of(1, 2048), true) == 288);
  BOOST_TEST(backward_mib(attention_of(1, 4096), true) == 1088);
  BOOST_TEST(backward_mib(attention_of(1, 8192), true) == 4225);
  BOOST_TEST(backward_mib(attention_of(4, 4096), true) == 4354);
  BOOST_TEST(backward_mib(attention_of(1, 2048), false) == 64);
  BOOST_TEST(backward_mib(attention_of(1, 8192), false) == 257);
  BOOST_TEST(backward_mib(attention_of(4, 4096), false) == 514);
}

// Their plans take what those of sequences take (cudnn_plan_test). The rotation has a cosine and a
// sine for each pair of numbers of each token, in both directions.
BOOST_AUTO_TEST_CASE(documents_need_their_rotation_besides) {
  stages::StageSpec spec = attention_of(4, 2048);
  const std::int64_t sequences = workspace_on_gpu(spec, true);
  spec.documents = stages::Documents::packed;
  const std::int64_t tables = 4 * std::int64_t{2048} * 128 * 4;
  const std::int64_t more = workspace_on_gpu(spec, true) - sequences;
  BOOST_TEST(more >= 2 * tables);
  BOOST_TEST(more <= 2 * tables + kMiB);
  spec.training = false;
  BOOST_TEST(workspace_on_gpu(spec, true) - 32 * kMiB >= tables);
  spec.model.kind = stages::ModelKind::gpt2;
  BOOST_TEST(workspace_on_gpu(spec, true) - 32 * kMiB < kMiB);
}

BOOST_AUTO_TEST_CASE(what_cudnn_does_not_serve_needs_a_number_for_each_row) {
  stages::StageSpec spec = attention_of(1, 4096);
  spec.model.dtype = tensor::DType::f32;
  BOOST_TEST(workspace_on_gpu(spec, true) == 64 * kMiB + 4 * 32 * 4096);
  spec = attention_of(1, 4096);
  spec.model.head_dim = 36;
  BOOST_TEST(backward_mib(spec, true) == 0);
  spec = attention_of(1, 4096);
  spec.training = false;
  BOOST_TEST(workspace_on_gpu(spec, true) == 32 * kMiB);
}

BOOST_AUTO_TEST_CASE(a_rank_divides_its_memory_between_gpu_and_machine) {
  RunSpec spec = test::small_run();
  const ClusterShape shape = first_shape(spec);
  const auto plan = [&] { return memory_of(spec, shape, assemble(spec, shape)).front(); };
  const RankMemory cpu = plan();
  BOOST_TEST(cpu.device_total() == 0);
  BOOST_TEST(cpu.host_total() == cpu.total());
  spec.cluster.device.kind = tensor::DeviceKind::cuda;
  const RankMemory gpu = plan();
  BOOST_TEST(gpu.allocated.stage.weights == cpu.allocated.stage.weights);
  BOOST_TEST(gpu.device_total() > kContextBytes + 64 * kMiB + gpu.allocated.stage.weights);
  BOOST_TEST(gpu.host_total() == gpu.allocated.pools + kProcessBytes + kCudaHostBytes);
  BOOST_TEST(total_memory(spec, shape) == gpu.host_total());
  // 32 rows of 16 elements are looked up by the embedding; the head's are multiplied.
  BOOST_TEST(gpu.allocated.stage.packed == gpu.allocated.stage.weights - 32 * 16 * 4);
  spec.model.dtype = tensor::DType::bf16;
  BOOST_TEST(plan().allocated.stage.packed == (gpu.allocated.stage.weights - 32 * 16 * 4) / 2);
}

BOOST_AUTO_TEST_CASE(edges_take_memory_of_gpus_and_staged_ones_of_the_machine_too) {
  using transport::EdgePlacement;
  RunSpec spec = test::small_run(2);
  spec.cluster.device.kind = tensor::DeviceKind::cuda;
  spec.recovery.neighbour_copies = false;
  const ClusterShape shape = first_shape(spec);
  const auto plan = [&](transport::EdgeChoice choice) {
    spec.cluster.edges = choice;
    return memory_of(spec, shape, assemble(spec, shape));
  };
  const auto automatic = plan(transport::EdgeChoice::automatic),
             peer = plan(transport::EdgeChoice::peer), staged = plan(transport::EdgeChoice::staged);
  for (const std::size_t rank : {0, 1}) {
    const int other = 1 - static_cast<int>(rank);
    BOOST_TEST((peer[rank].placements == std::map{std::pair(other, EdgePlacement::peer)}));
    BOOST_TEST((automatic[rank].placements == peer[rank].placements));
    BOOST_TEST((staged[rank].placements == std::map{std::pair(other, EdgePlacement::staged)}));
    // All of it is the GPU's; staged messages arrive in as many slots of the machine.
    BOOST_TEST(peer[rank].edges == peer[rank].allocated.pools);
    BOOST_TEST(staged[rank].edges == peer[rank].edges);
    BOOST_TEST(staged[rank].allocated.pools > peer[rank].allocated.pools);
    BOOST_TEST(staged[rank].allocated.pools < 2 * peer[rank].allocated.pools);
    BOOST_TEST(staged[rank].device_total() == peer[rank].device_total());
  }
  spec.schedule = {.kind = "interleaved", .chunks = 2};
  spec.mesh.pp = 1;
  const ClusterShape alone = first_shape(spec);
  const RankMemory one = memory_of(spec, alone, assemble(spec, alone)).front();
  BOOST_TEST((one.placements == std::map{std::pair(0, EdgePlacement::local)}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors

#include "tensor/cuda/attention/cudnn_plan.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "tensor/cuda/attention/attention_choice.h"
#include "tensor/libraries/library_search.h"

// Plans of cuDNN for GPUs that are not there: cuDNN compiles their kernels, and a stub in the
// driver's place takes them.

namespace troupe::tensor::cuda {

BOOST_AUTO_TEST_SUITE(cudnn_plan_test)

namespace {

/// What tells GPUs apart.
struct Gpu {
  const char* name;
  int version;
  int multiprocessors, shared_kib, threads, blocks;  ///< the last two of a multiprocessor
  int l2_mib, memory_gib;
};
constexpr Gpu kA100{"NVIDIA A100-SXM4-80GB", 80, 108, 163, 2048, 32, 40, 80};
constexpr Gpu kL40S{"NVIDIA L40S", 89, 142, 99, 1536, 24, 96, 48};
constexpr Gpu kH200{"NVIDIA H200", 90, 132, 227, 2048, 32, 60, 140};
constexpr Gpu kB200{"NVIDIA B200", 100, 148, 227, 2048, 32, 126, 180};
constexpr Gpu kRtx5090{"NVIDIA GeForce RTX 5090", 120, 170, 99, 1536, 24, 96, 32};

/// A GPU as cuDNN describes one.
DescribedGpu described(const Gpu& gpu) {
  static constexpr char kJson[] = R"({{
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "regsPerBlock": 65536, "multiProcessorCount": {}, "warpSize": 32,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": {},
  "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": {},
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": {}, "pciDeviceId": 9007, "isTccDriver": 0,
  "supportCoopLaunch": 1, "totalGlobalMem": {}, "smClockRateKHz": 1980000,
  "memClockRateKHz": 3201000, "l2CacheSize": {}, "cudaDeviceId": 0, "deviceVer": {},
  "driverVer": 13000, "deviceName": "{}"}})";
  return {.version = gpu.version,
          .json = fmt::format(kJson, gpu.multiprocessors, gpu.shared_kib << 10, gpu.blocks,
                              gpu.threads, std::int64_t{gpu.memory_gib} << 30, gpu.l2_mib << 20,
                              10 * gpu.version, gpu.name)};
}

struct OpenCudnn {
  OpenCudnn() {
    const std::string driver = std::string(TROUPE_STUB_DRIVER_FOLDER) + "/libcuda.so.1";
    BOOST_TEST_REQUIRE(dlopen(driver.c_str(), RTLD_NOW | RTLD_GLOBAL), dlerror());
    const auto search = LibrarySearch::of_this_process();
    for (const char* name : {"libcudart.so.13", "libcudnn.so.9"}) {
      const OpenLibrary library = open_cuda_library(search, name);
      BOOST_TEST_REQUIRE(library.handle, library.fault);
    }
  }
};
BOOST_TEST_GLOBAL_FIXTURE(OpenCudnn);

AttentionShape shape_of(std::int64_t batch, std::int64_t seq_len, std::int64_t heads,
                        std::int64_t kv_heads, std::int64_t head_dim, bool causal = true) {
  return {.batch = batch,
          .seq_len = seq_len,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .dtype = DType::bf16,
          .causal = causal};
}

/// Why cuDNN refuses a shape; empty if it does not.
std::string refusal_of(const AttentionShape& shape, AttentionPass pass, const Gpu& gpu = kH200) {
  const DescribedGpu described_gpu = described(gpu);
  const auto made = CudnnPlan::make(shape, pass, true, &described_gpu);
  BOOST_TEST((made.plan == nullptr) == !made.refusal.empty());
  return made.refusal;
}

std::size_t workspace_of(const AttentionShape& shape, AttentionPass pass, bool deterministic,
                         const Gpu& gpu = kH200) {
  const DescribedGpu described_gpu = described(gpu);
  const auto made = CudnnPlan::make(shape, pass, deterministic, &described_gpu);
  BOOST_TEST_REQUIRE(made.plan != nullptr, made.refusal);
  return made.plan->workspace_bytes();
}

BOOST_AUTO_TEST_CASE(cudnn_is_found_once_it_is_open) {
  BOOST_TEST(CudnnPlan::is_there());
}

BOOST_AUTO_TEST_CASE(shapes_that_are_chosen_for_cudnn_have_plans) {
  for (const AttentionShape& s : {shape_of(2, 77, 12, 4, 64), shape_of(1, 1000, 4, 4, 40, false),
                                  shape_of(1, 512, 4, 2, 256)}) {
    BOOST_TEST_CONTEXT("batch " << s.batch << " sequence " << s.seq_len << " heads " << s.heads
                                << " of them for keys " << s.kv_heads << " size " << s.head_dim) {
      BOOST_TEST(cudnn_serves(s));
      BOOST_TEST(workspace_of(s, AttentionPass::forward, true) <= 1024u);
      // Without order the gradient of q is summed in float32; with grouped queries the gradients of
      // k and v come per query head, in bfloat16; and there is a float32 per row.
      const auto rows = static_cast<std::size_t>(s.batch * s.heads * s.seq_len);
      const std::size_t dq = 4 * rows * static_cast<std::size_t>(s.head_dim);
      const std::size_t least = s.heads == s.kv_heads ? dq : 2 * dq;
      const std::size_t workspace = workspace_of(s, AttentionPass::backward, false);
      BOOST_TEST(workspace >= least);
      BOOST_TEST(workspace <= least + least / 8 + 12 * rows + 4096);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_price_of_determinism_is_memory) {
  const AttentionShape shape = shape_of(1, 2048, 32, 8, 128);
  constexpr std::size_t kMebi = 1 << 20;
  BOOST_TEST(cudnn_serves(shape));
  BOOST_TEST(workspace_of(shape, AttentionPass::backward, true) / kMebi == 288u);
  BOOST_TEST(workspace_of(shape, AttentionPass::backward, false) / kMebi == 64u);
}

// What they refuse is left to our own kernels (cudnn_plans.h).
BOOST_AUTO_TEST_CASE(every_gpu_has_a_deterministic_backward_but_few_one_for_wide_heads) {
  for (const Gpu& gpu : {kA100, kL40S, kB200, kRtx5090}) {
    BOOST_TEST_CONTEXT(gpu.name) {
      BOOST_TEST(refusal_of(shape_of(1, 512, 4, 2, 128), AttentionPass::forward, gpu) == "");
      BOOST_TEST(refusal_of(shape_of(1, 512, 4, 2, 128), AttentionPass::backward, gpu) == "");
      BOOST_TEST(refusal_of(shape_of(1, 512, 4, 2, 256), AttentionPass::backward, gpu) != "");
    }
  }
}

AttentionShape with_documents(AttentionShape shape) {
  shape.documents = true;
  return shape;
}

BOOST_AUTO_TEST_CASE(documents_have_plans_where_there_is_a_deterministic_backward_of_them) {
  const AttentionShape shape = with_documents(shape_of(2, 512, 4, 2, 64));
  BOOST_TEST(cudnn_serves(shape));
  for (const Gpu& gpu : {kH200, kB200}) {
    BOOST_TEST_CONTEXT(gpu.name) {
      BOOST_TEST(refusal_of(shape, AttentionPass::forward, gpu) == "");
      BOOST_TEST(refusal_of(shape, AttentionPass::backward, gpu) == "");
    }
  }
  for (const Gpu& gpu : {kA100, kL40S, kRtx5090}) {
    const std::string refusal = refusal_of(shape, AttentionPass::backward, gpu);
    BOOST_TEST(refusal.find("Deterministic") != std::string::npos, gpu.name << ": " << refusal);
    const DescribedGpu described_gpu = described(gpu);
    const auto any_order = CudnnPlan::make(shape, AttentionPass::backward, false, &described_gpu);
    BOOST_TEST(!any_order.plan, gpu.name);
  }
}

// As many documents at a time as there are sequences: `plan` counts the same for both.
BOOST_AUTO_TEST_CASE(documents_work_in_the_memory_of_as_many_sequences) {
  constexpr std::size_t kMore = 32 << 10;
  for (const AttentionShape& s :
       {shape_of(4, 2048, 32, 8, 128), shape_of(1, 1000, 4, 4, 40, false)}) {
    const AttentionShape documents = with_documents(s);
    BOOST_TEST(workspace_of(documents, AttentionPass::forward, true) <= kMore);
    const std::size_t sequences = workspace_of(s, AttentionPass::backward, true);
    const std::size_t workspace = workspace_of(documents, AttentionPass::backward, true);
    BOOST_TEST(workspace >= sequences);
    BOOST_TEST(workspace <= sequences + kMore);
    BOOST_TEST(workspace_of(documents, AttentionPass::backward, true, kB200) <= workspace);
  }
}

BOOST_AUTO_TEST_CASE(documents_that_fill_no_tile_on_average_are_too_many) {
  BOOST_TEST(most_documents(with_documents(shape_of(4, 2048, 4, 2, 64))) == 64);
  BOOST_TEST(most_documents(with_documents(shape_of(1, 1000, 4, 2, 64))) == 7);
  // Each sample with its padding, whatever the length.
  BOOST_TEST(most_documents(with_documents(shape_of(4, 100, 4, 2, 64))) == 8);
}

BOOST_AUTO_TEST_CASE(windows_that_hide_keys_and_caps_are_left_to_our_own_kernels) {
  AttentionShape shape = shape_of(1, 256, 4, 4, 64);
  for (const auto& [window, chosen] : {std::pair{255, false}, {256, true}, {4096, true}}) {
    shape.window = window;
    BOOST_TEST(cudnn_serves(shape) == chosen, "window " << window);
  }
  shape.cap = 50;
  BOOST_TEST(!cudnn_serves(shape));
}

BOOST_AUTO_TEST_CASE(shapes_that_are_not_chosen_are_those_that_cudnn_refuses) {
  AttentionShape odd = shape_of(1, 256, 4, 4, 36);
  BOOST_TEST(!cudnn_serves(odd));
  const std::string refusal = refusal_of(odd, AttentionPass::forward);
  BOOST_TEST(refusal.find("multiple of 8") != std::string::npos, refusal);
  AttentionShape wide = shape_of(1, 256, 4, 4, 264);
  BOOST_TEST(!cudnn_serves(wide));
  BOOST_TEST(refusal_of(wide, AttentionPass::backward) != "");
  AttentionShape single = shape_of(1, 256, 4, 4, 64);
  single.dtype = DType::f32;
  BOOST_TEST(!cudnn_serves(single));
  BOOST_TEST(refusal_of(single, AttentionPass::backward) != "");
  AttentionShape masked = shape_of(1, 256, 4, 4, 64);
  masked.mask = Mask::keys;
  BOOST_TEST(!cudnn_serves(masked));
  BOOST_TEST(!cudnn_serves(with_documents(single)));
  BOOST_TEST(refusal_of(with_documents(odd), AttentionPass::backward) != "");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor::cuda

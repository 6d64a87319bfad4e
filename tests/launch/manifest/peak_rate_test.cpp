#include "launch/manifest/inputs/peak_rate.h"

#include <boost/test/unit_test.hpp>

#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(peak_rate_test)

namespace {

actors::RunSpec spec_of(const std::vector<std::string>& overrides = {}) {
  return launch::to_run_spec(checked(kSmallManifest, overrides));
}

launch::Machine machine_with(const std::string& gpu) {
  launch::Machine machine = kMachine;
  machine.gpus = tensor::DeviceReport{.devices = {{.name = gpu}}};
  return machine;
}

}  // namespace

// 6 layers, each of 2 * 96 * 16 * (6 + 2) elements for attention and 3 * 96 * 224 for feed-forward,
// 6 heads of 16 and sequences of 64; a head of 256 rows. Neither norms nor the table of the
// embedding multiply.
BOOST_AUTO_TEST_CASE(a_token_costs_six_flop_for_what_multiplies_it_and_the_scores) {
  const double matrices = 6 * (2 * 96 * 16 * 8 + 3 * 96 * 224) + 256 * 96;
  const double scores = 12.0 * 6 * 6 * 16 * 64;
  BOOST_TEST(launch::flop_per_token(spec_of()) == 6 * matrices + scores);
  BOOST_TEST(launch::flop_per_token(spec_of({"model.tie_word_embeddings=true"})) ==
             6 * matrices + scores);
}

BOOST_AUTO_TEST_CASE(gpus_have_their_peak_by_name_and_type) {
  using tensor::DType;
  BOOST_TEST(launch::peak_of_gpu("NVIDIA H200", DType::bf16, false) == 989.5e12);
  BOOST_TEST(launch::peak_of_gpu("NVIDIA H100 80GB HBM3", DType::f32, true) == 494.5e12);
  BOOST_TEST(launch::peak_of_gpu("NVIDIA H100 80GB HBM3", DType::f32, false) == 67e12);
  BOOST_TEST(launch::peak_of_gpu("NVIDIA H100 PCIe", DType::bf16, true) == 756e12);
  BOOST_TEST(launch::peak_of_gpu("NVIDIA A100-SXM4-80GB", DType::bf16, false) == 312e12);
  BOOST_TEST(launch::peak_of_gpu("NVIDIA B200", DType::bf16, false) == 2250e12);
  BOOST_TEST(launch::peak_of_gpu("NVIDIA L40S", DType::bf16, false) == 362e12);
  BOOST_TEST(launch::peak_of_gpu("NVIDIA GeForce RTX 4090", DType::bf16, false) == 165.2e12);
  BOOST_TEST(launch::peak_of_gpu("NVIDIA GeForce RTX 5090", DType::bf16, false) == 209.5e12);
  BOOST_TEST(launch::peak_of_gpu("NVIDIA GeForce RTX 5090", DType::f32, true) == 104.8e12);
  BOOST_TEST(launch::peak_of_gpu("NVIDIA GeForce RTX 4090 Laptop GPU", DType::bf16, false) == 0);
  BOOST_TEST(launch::peak_of_gpu("Some other", DType::bf16, false) == 0);
}

BOOST_AUTO_TEST_CASE(utilization_is_of_all_ranks_and_unknown_without_a_peak) {
  const auto spec = spec_of({"cluster.device=cuda"});
  const launch::PeakRate rate = launch::peak_rate(spec, 0, machine_with("NVIDIA H200"));
  BOOST_TEST(rate.flop_per_s == 67e12);
  const actors::StepReport report{.tokens = 1000, .step_s = 2};
  const double expected = rate.flop_per_token * 500 / (2 * 67e12);
  BOOST_TEST(rate.utilization(report, 2).value() == expected, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(launch::peak_rate(spec, 3, machine_with("NVIDIA H200")).flop_per_s == 3e12);
  BOOST_TEST(!launch::peak_rate(spec, 0, machine_with("Another")).utilization(report, 2));
  BOOST_TEST(!launch::peak_rate(spec, 0, kMachine).utilization(report, 2));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

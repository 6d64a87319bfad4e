#include <boost/test/unit_test.hpp>

#include "launch/host/quantities.h"
#include "launch/manifest/inputs/warnings.h"
#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"

// Tests what [cluster] says about the device, and how much of a GPU's memory a run takes.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(device_test)

namespace {

using Overrides = std::vector<std::string>;

actors::RunSpec spec_of(const Overrides& overrides) {
  return launch::to_run_spec(checked(kSmallManifest, overrides));
}

launch::Machine machine_with(std::int64_t gpu_bytes) {
  launch::Machine machine = kMachine;
  machine.gpus = tensor::DeviceReport{
      .devices = {{.name = "NVIDIA H200", .memory_bytes = static_cast<std::size_t>(gpu_bytes)}}};
  return machine;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_worker_is_told_which_device_to_make) {
  const tensor::DeviceSpec cpu = spec_of({"cluster.threads=3"}).cluster.device;
  BOOST_TEST((cpu == tensor::DeviceSpec{.threads = 3}));
  const Overrides keys{"cluster.device=cuda", "cluster.matmul=tf32", "run.dir=/runs/gpu"};
  const tensor::DeviceSpec gpu = spec_of(keys).cluster.device;
  BOOST_TEST((gpu == tensor::DeviceSpec{.kind = tensor::DeviceKind::cuda, .tf32 = true}));
  Overrides fast = keys;
  fast.emplace_back("cluster.deterministic=false");
  const tensor::DeviceSpec any_order = spec_of(fast).cluster.device;
  BOOST_TEST(!any_order.deterministic);
  BOOST_TEST(any_order.tuning == "/runs/gpu/products.txt");
  // A worker reads the same from the resolved text.
  const auto read = launch::parse_resolved(checked(kSmallManifest, fast).to_toml());
  BOOST_TEST((read.cluster.device == any_order));
}

BOOST_AUTO_TEST_CASE(choices_of_a_gpu_are_refused_for_a_cpu) {
  expect_error(ErrorKind::manifest, {"cluster.matmul", "tf32", "cuda"},
               [] { spec_of({"cluster.matmul=tf32"}); });
  expect_error(ErrorKind::manifest, {"cluster.deterministic", "cuda"},
               [] { spec_of({"cluster.deterministic=false"}); });
  expect_error(ErrorKind::manifest, {"cluster.device", "tpu", "'cpu'", "'cuda'"},
               [] { spec_of({"cluster.device=tpu"}); });
}

BOOST_AUTO_TEST_CASE(more_memory_than_the_gpu_has_is_warned_of_and_refused) {
  const auto spec = spec_of({"cluster.device=cuda"});
  const auto placement = launch::place(spec);
  const std::int64_t bytes = placement.device_bytes();
  BOOST_TEST(bytes > 0);
  BOOST_TEST(placement.host_bytes() + bytes == placement.total_bytes());
  BOOST_TEST(launch::memory_warning(spec, placement, machine_with(bytes)) == "");
  launch::check_memory(spec, placement, machine_with(bytes), "m.toml");
  const std::string total = launch::bytes_text(bytes);
  const std::string warning = launch::memory_warning(spec, placement, machine_with(bytes - 1));
  for (const std::string& word : {std::string("1 rank would take "), total,
                                  std::string("the GPU (NVIDIA H200) has"), std::string("launch")})
    BOOST_TEST(warning.find(word) != std::string::npos, "no '" << word << "' in: " << warning);
  expect_error(ErrorKind::manifest, {"m.toml", total, "NVIDIA H200", "batch.micro"},
               [&] { launch::check_memory(spec, placement, machine_with(bytes - 1), "m.toml"); });
  // Without a GPU there is nothing to compare with.
  launch::Machine without = kMachine;
  without.gpus = tensor::DeviceReport{.fault = "no NVIDIA driver"};
  BOOST_TEST(launch::memory_warning(spec, placement, without) == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

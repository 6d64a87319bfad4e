#include "launch/planner/measuring/fit_device.h"

#include <boost/test/unit_test.hpp>

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(fit_device_test)

namespace {

/// A core that does 50 GFLOP/s at any shape.
schedules::MachineModel core() {
  schedules::MachineModel machine{.device = {.kind = schedules::MachineModel::Kind::cpu,
                                             .bfloat16_tflops = 0.1,
                                             .float32_tflops = 0.05,
                                             .units = 1,
                                             .sustained = 1,
                                             .memory_gb_per_s = 7,
                                             .memory_share = 1,
                                             .memory_gib = 8,
                                             .kernel_us = 1,
                                             .attention_forward = 0.4,
                                             .attention_backward = 0.2},
                                  .host = {.gb_per_s = 1, .hop_us = 1, .base_us = 1},
                                  .network = {.gb_per_s = 1, .share = 1, .hop_us = 1}};
  machine.software.optimizer_bytes = 50;
  machine.products = {{.m = 512, .n = 512, .k = 512, .rate = 50}};
  return machine;
}

constexpr auto kClose = 0.01;

}  // namespace

/// From the times that a machine would take follow its numbers.
BOOST_AUTO_TEST_CASE(a_machine_is_found_from_its_times) {
  const schedules::MachineModel truth = core();
  const auto measured = [&](std::int64_t seq_len) {
    const schedules::Work work = launch::stage_work(seq_len);
    return launch::MeasuredStage{.work = work, .times = launch::predicted_times(work, truth)};
  };
  schedules::MachineModel found = truth;
  found.device.memory_gb_per_s = 30;
  found.device.attention_forward = found.device.attention_backward = 1;
  found.software.optimizer_bytes = 1;
  launch::fit_device(found, measured(128), measured(1024));
  BOOST_TEST(found.device.memory_gb_per_s == 7, boost::test_tools::tolerance(kClose));
  BOOST_TEST(found.device.attention_forward == 0.4, boost::test_tools::tolerance(kClose));
  BOOST_TEST(found.device.attention_backward == 0.2, boost::test_tools::tolerance(kClose));
  BOOST_TEST(found.software.optimizer_bytes == 50, boost::test_tools::tolerance(kClose));
}

/// A stage of this test's processor takes some time, and its products have rates.
BOOST_AUTO_TEST_CASE(stages_are_timed) {
  schedules::Work work = launch::stage_work(64);
  work.micro = 1;
  work.layers = 1;
  const launch::StageTimes times = launch::time_stage(work, 1);
  BOOST_TEST(times.forward > 0);
  BOOST_TEST(times.backward > 0);
  BOOST_TEST(times.optimizer > 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

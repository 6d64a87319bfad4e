#include "schedules/planner/operations.h"

#include <boost/test/unit_test.hpp>

namespace troupe::schedules {

BOOST_AUTO_TEST_SUITE(operations_test)

namespace {

/// Ten units of 10^11 FLOP/s each, and round numbers for all else.
MachineModel round_machine() {
  return {.device = {.bfloat16_tflops = 2,
                     .float32_tflops = 1,
                     .units = 10,
                     .sustained = 0.5,
                     .memory_gb_per_s = 100,
                     .memory_share = 0.5,
                     .memory_gib = 16,
                     .kernel_us = 2,
                     .attention_forward = 0.5,
                     .attention_backward = 0.25},
          .host = {.devices = 4, .gb_per_s = 10, .hop_us = 5, .base_us = 100},
          .network = {.gb_per_s = 2, .share = 0.5, .hop_us = 20}};
}

constexpr auto kExact = 1e-9;

}  // namespace

/// 20 tiles of 256 x 128 are two waves of ten units; 21 would be three.
BOOST_AUTO_TEST_CASE(a_product_takes_whole_waves_of_tiles) {
  const MachineModel machine = round_machine();
  const Operations operations(machine, 4);
  const double tile = 2.0 * 256 * 128 * (1024 + 64) / (1e12 * 0.5 / 10);
  BOOST_TEST(operations.product(2560, 256, 1024) == 2 * tile + 2e-6,
             boost::test_tools::tolerance(kExact));
  BOOST_TEST(operations.product(256, 256, 1024, 10) == 2 * tile + 2e-6,
             boost::test_tools::tolerance(kExact));
  BOOST_TEST(Operations(machine, 2).product(2560, 256, 1024) == tile + 2e-6,
             boost::test_tools::tolerance(kExact));
}

/// A vector's product reads the matrix, whose gradient is read and written in float32.
BOOST_AUTO_TEST_CASE(a_thin_product_takes_as_long_as_its_bytes) {
  MachineModel machine = round_machine();
  machine.device.bfloat16_tflops = 1e6;
  const Operations operations(machine, 2);
  const double bytes = 2.0 * (1 * 4096 + 4096 * 4096 + 1 * 4096);
  BOOST_TEST(operations.product(1, 4096, 4096) == bytes / 50e9 + 2e-6,
             boost::test_tools::tolerance(kExact));
  const double written = 2.0 * (4096 + 4096) + 8.0 * 4096 * 4096;
  BOOST_TEST(operations.weight_gradient(4096, 4096, 1) == written / 50e9 + 2e-6,
             boost::test_tools::tolerance(kExact));
  BOOST_TEST(operations.stream(5e9, 3) == 0.1 + 6e-6, boost::test_tools::tolerance(kExact));
}

BOOST_AUTO_TEST_CASE(members_share_a_host_if_their_ranks_do) {
  const MachineModel machine = round_machine();
  BOOST_TEST(members_on_host(machine, 4, 1) == 4);
  BOOST_TEST(members_on_host(machine, 8, 1) == 4);
  BOOST_TEST(members_on_host(machine, 8, 2) == 2);
  BOOST_TEST(members_on_host(machine, 8, 64) == 1);
}

BOOST_AUTO_TEST_CASE(a_collective_takes_steps_and_bytes) {
  const MachineModel machine = round_machine();
  const Operations operations(machine, 4);
  BOOST_TEST(operations.collective(Rounds::reduce, 1, 1, 1e9) == 0);
  // On one host: 3 hops twice, and 2 * 3/4 of the bytes at 10 GB/s.
  BOOST_TEST(operations.collective(Rounds::reduce, 4, 1, 1e9) == 100e-6 + 30e-6 + 0.15,
             boost::test_tools::tolerance(kExact));
  // Two hosts of four devices with 1 GB/s each: 3 hops on a host, 1 between them.
  BOOST_TEST(
      operations.collective(Rounds::gather, 8, 1, 1e9) == 100e-6 + 15e-6 + 20e-6 + 7.0 / 8 / 4,
      boost::test_tools::tolerance(kExact));
  // Nearly nothing takes the quick protocol's latency.
  BOOST_TEST(operations.collective(Rounds::reduce, 4, 1, 1e-6) == 100e-6 + 0.18 * 30e-6,
             boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(a_message_takes_the_network_or_the_host) {
  MachineModel machine = round_machine();
  machine.software.send_us = 7;
  const Operations operations(machine, 4);
  BOOST_TEST(operations.hop(1e9, true) == 1 + 27e-6, boost::test_tools::tolerance(kExact));
  BOOST_TEST(operations.hop(1e9, false) == 0.1 + 12e-6, boost::test_tools::tolerance(kExact));
}

/// Between two measured shapes the rate lies between theirs, at one it is that one's.
BOOST_AUTO_TEST_CASE(measured_rates_are_interpolated) {
  MachineModel machine = round_machine();
  machine.device.kernel_us = 1e-9;
  machine.products = {{.m = 256, .n = 256, .k = 256, .rate = 10},
                      {.m = 1024, .n = 1024, .k = 1024, .rate = 40}};
  const Operations operations(machine, 4);
  const auto rate = [&](double side) {
    return 2 * side * side * side / operations.product(side, side, side);
  };
  BOOST_TEST(rate(256) == 10e9, boost::test_tools::tolerance(0.01));
  BOOST_TEST(rate(1024) == 40e9, boost::test_tools::tolerance(0.01));
  BOOST_TEST(rate(512) == 20e9, boost::test_tools::tolerance(0.01));
  BOOST_TEST(rate(16384) <= 40e9);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::schedules

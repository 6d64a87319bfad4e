#include "launch/host/device_json.h"

#include <boost/test/unit_test.hpp>

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(device_json_test)

BOOST_AUTO_TEST_CASE(a_report_comes_back_from_json) {
  const tensor::DeviceReport report{
      .driver = "13.0",
      .libraries = {{.name = "libcublasLt.so.13", .version = "13.1.0", .path = "/x/libcublasLt"}},
      .devices = {{.name = "NVIDIA H200",
                   .uuid = "GPU-1",
                   .major = 9,
                   .minor = 0,
                   .multiprocessors = 132,
                   .memory_bytes = std::size_t{141} << 30,
                   .free_bytes = std::size_t{140} << 30,
                   .context_bytes = 300 << 20,
                   .peers = {1, 2},
                   .shares_memory = true}},
      .fault = "a \"fault\"",
      .emulates = true};
  const auto back =
      nlohmann::json::parse(nlohmann::json(report).dump()).get<tensor::DeviceReport>();
  BOOST_TEST(nlohmann::json(back) == nlohmann::json(report));
  BOOST_TEST(back.driver == "13.0");
  BOOST_TEST(back.fault == report.fault);
  BOOST_TEST(back.emulates);
  BOOST_REQUIRE(back.devices.size() == 1u);
  BOOST_TEST(back.devices[0].free_bytes == std::size_t{140} << 30);
  BOOST_TEST(back.devices[0].context_bytes == 300u << 20);
  BOOST_TEST(back.devices[0].peers == std::vector<int>({1, 2}), boost::test_tools::per_element());
  BOOST_TEST(back.devices[0].shares_memory);
  BOOST_REQUIRE(back.libraries.size() == 1u);
  BOOST_TEST(back.libraries[0].path == "/x/libcublasLt");
  BOOST_CHECK_THROW(nlohmann::json({{"driver", ""}}).get<tensor::DeviceReport>(),
                    nlohmann::json::exception);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

#include "launch/report/run_prediction.h"

#include <boost/test/unit_test.hpp>
#include <sstream>

#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(run_prediction_test)

namespace {

/// Six steps of one rank; the first two take ten times as long.
launch::Metrics metrics_of_steps() {
  std::string lines;
  for (int step = 1; step <= 7; ++step)
    lines += R"({"step":)" + std::to_string(step) +
             R"(,"loss":1,"grad_norm":1,"lr":0.1,"tokens":1000,"step_s":)" +
             (step <= 3 ? "5" : "0.5") +
             R"(,"stages":[{"replica":0,"stage":0,"shard":0,"busy_s":0.3,"idle_s":0.15,)" +
             R"("collective_s":0.05}]})" + "\n";
  std::istringstream file(lines);
  return launch::read_metrics(file);
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_are_measured_without_the_first) {
  const auto measured = launch::measured_steps(metrics_of_steps(), 1);
  BOOST_REQUIRE(measured.has_value());
  BOOST_TEST(measured->step_s == 0.5);
  BOOST_TEST(measured->tokens_per_s == 2000);
  BOOST_TEST(measured->compute_s == 0.3);
  BOOST_TEST(measured->shards_s == 0);  // there are none
  BOOST_TEST(measured->waits_s == 0.1, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(measured->rest_s() == 0.1, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(!launch::measured_steps(metrics_of_steps(), 2));
  BOOST_TEST(!launch::measured_steps({}, 1));
}

BOOST_AUTO_TEST_CASE(a_prediction_stands_beside_them) {
  const auto spec = launch::to_run_spec(checked(kSmallManifest));
  const auto machine = launch::describe_machine("l40s");
  const auto run = launch::predict_run(spec, metrics_of_steps(), machine);
  BOOST_REQUIRE(run.has_value());
  const auto parts = launch::compared(run->prediction, run->measured);
  BOOST_TEST(parts.front().name == "step");
  BOOST_TEST(parts.front().predicted == run->prediction.step.step_s);
  BOOST_TEST(parts.front().measured == 0.5);
  double predicted = 0, measured = 0;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    predicted += parts[i].predicted;
    measured += parts[i].measured;
  }
  BOOST_TEST(predicted == parts.front().predicted, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(measured == 0.5, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(to_json(*run)["machine"] == "l40s");
}

BOOST_AUTO_TEST_CASE(gpus_have_their_presets_by_name) {
  BOOST_TEST(launch::machine_of_gpu("NVIDIA H100 80GB HBM3") == "h100-sxm");
  BOOST_TEST(launch::machine_of_gpu("NVIDIA H100 PCIe") == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

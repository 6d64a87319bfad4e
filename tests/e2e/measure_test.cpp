#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "tensor/errors/error.h"
#include "tests/support/environment_setting.h"
#include "tests/support/trained_run.h"

// `troupe measure` with real processes, and a plan on what it wrote.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(measure_test)

BOOST_AUTO_TEST_CASE(a_measured_machine_is_one_that_plans_can_be_made_for) {
  const Workplace place;
  const std::string here = (place.dir / "here.toml").string();
  const Finished measured = troupe({"measure", "-o", here});
  BOOST_REQUIRE_MESSAGE(measured.exit_code == 0, measured.err);
  for (const char* line : {"products", "streams", "passes"})
    BOOST_TEST(measured.out.find(line) != std::string::npos, measured.out);
  const std::string text = content_of(here);
  for (const char* said : {"[machine]", "processor", "date", "[products]", "kind = \"cpu\""})
    BOOST_TEST(text.find(said) != std::string::npos, said << " is not in " << text);
  const Finished planned = troupe({"plan", place.manifest("planned"), "--machine", here, "--json"});
  BOOST_REQUIRE_MESSAGE(planned.exit_code == 0, planned.err);
  const auto predicted = nlohmann::json::parse(planned.out).at("predicted");
  BOOST_TEST(predicted.at("step_s").get<double>() > 0);
  // Passes of a small model on one core are far from the rate of its best products, and not faster.
  BOOST_TEST(predicted.at("mfu").get<double>() > 0);
  BOOST_TEST(predicted.at("mfu").get<double>() < 1);
  BOOST_TEST(predicted.at("fits").get<bool>());
}

BOOST_AUTO_TEST_CASE(a_process_that_cannot_measure_is_told_with_the_reason) {
  const Workplace place;
  const Setting transports("UCX_TLS", "no-such-transport");
  const Finished failed = troupe({"measure", "-o", (place.dir / "here.toml").string()});
  BOOST_TEST(failed.exit_code == static_cast<int>(ErrorKind::unavailable), failed.err);
  for (const char* word : {"rank 0", "UCX"})
    BOOST_TEST(failed.err.find(word) != std::string::npos, word << " is not in " << failed.err);
  BOOST_TEST(!std::filesystem::exists(place.dir / "here.toml"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

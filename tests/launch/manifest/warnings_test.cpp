#include "launch/manifest/inputs/warnings.h"

#include <boost/test/unit_test.hpp>

#include "launch/host/quantities.h"
#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(warnings_test)

namespace {

actors::RunSpec spec_of(const std::vector<std::string>& overrides = {}) {
  return launch::to_run_spec(checked(kSmallManifest, overrides));
}

bool says(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(more_memory_than_the_machine_has_is_warned_of_and_refused) {
  const auto spec = spec_of();
  const auto placement = launch::place(spec);
  const launch::Machine enough{.free_cores = 8, .memory_bytes = placement.total_bytes()};
  const launch::Machine less{.free_cores = 8, .memory_bytes = placement.total_bytes() - 1};
  BOOST_TEST(launch::memory_warning(spec, placement, enough) == "");
  launch::check_memory(spec, placement, enough, "m.toml");
  const std::string total = launch::bytes_text(placement.total_bytes());
  const std::string warning = launch::memory_warning(spec, placement, less);
  for (const std::string& word : {std::string("1 rank would take "), total, std::string("launch")})
    BOOST_TEST(says(warning, word), "no '" << word << "' in: " << warning);
  expect_error(ErrorKind::manifest, {"m.toml", total, "batch.micro", "recompute.mode = \"full\""},
               [&] { launch::check_memory(spec, placement, less, "m.toml"); });
}

BOOST_AUTO_TEST_CASE(a_sharding_that_would_fit_is_named) {
  const auto spec = spec_of({"mesh.dp=4", "recovery.neighbour_copies=false"});
  const auto placement = launch::place(spec);
  const auto with_bytes = [](std::int64_t bytes) {
    return launch::Machine{.free_cores = 8, .memory_bytes = bytes};
  };
  const auto of = [&](const char* sharding) { return 4 * placement.sharding.at(sharding); };
  BOOST_TEST_REQUIRE(of("optim") < placement.total_bytes());
  expect_error(ErrorKind::manifest, {"data_parallel.sharding = \"optim\""}, [&] {
    launch::check_memory(spec, placement, with_bytes(placement.total_bytes() - 1), "m.toml");
  });
  expect_error(ErrorKind::manifest, {"data_parallel.sharding = \"optim_grads_params\""}, [&] {
    launch::check_memory(spec, placement, with_bytes(of("optim") - 1), "m.toml");
  });
  try {
    launch::check_memory(spec, placement, with_bytes(1), "m.toml");
  } catch (const Error& error) {
    BOOST_TEST(!says(error.what(), "data_parallel.sharding"), error.what());
  }
}

BOOST_AUTO_TEST_CASE(more_threads_than_cores_are_warned_of) {
  const auto spec = spec_of({"mesh.pp=3", "cluster.threads=2"});
  BOOST_TEST(launch::cores_warning(spec, {.free_cores = 6, .memory_bytes = 1}) == "");
  const std::string warning = launch::cores_warning(spec, {.free_cores = 5, .memory_bytes = 1});
  for (const char* word : {"3 ranks of 2 threads", "5 cores", "are shared"})
    BOOST_TEST(says(warning, word), "no '" << word << "' in: " << warning);
}

BOOST_AUTO_TEST_CASE(each_host_has_cores_of_its_own) {
  auto spec = spec_of({"mesh.pp=3", "cluster.threads=2"});
  spec.cluster.hosts = {{.name = "h0", .slots = 2, .cores = 4}, {.name = "h1", .slots = 1}};
  launch::Placement placement;
  placement.host_of_rank = {0, 0, 1};  // nobody knows the cores of h1
  BOOST_TEST(launch::cores_of_hosts(spec, placement) == "");
  spec.cluster.hosts[1].cores = 1;
  const std::string warning = launch::cores_of_hosts(spec, placement);
  for (const char* word : {"host h1", "1 rank of 2 threads", "1 core"})
    BOOST_TEST(says(warning, word), "no '" << word << "' in: " << warning);
}

BOOST_AUTO_TEST_CASE(too_little_disk_is_warned_of) {
  const auto spec = spec_of({"checkpoint.interval=5", "checkpoint.keep=2"});
  const auto placement = launch::place(spec);
  const std::int64_t needed = 3 * 12 * placement.parameters;
  BOOST_TEST(launch::disk_warning(spec, placement, needed) == "");
  const std::string fewer = launch::disk_warning(spec, placement, needed - 1);
  BOOST_TEST(says(fewer, "older ones make room, and fewer than checkpoint.keep = 2 are kept"));
  BOOST_TEST(says(launch::disk_warning(spec, placement, needed / 3), "2 of them are needed"));
  // One checkpoint is spoken of once.
  const std::string one = launch::disk_warning(spec_of({"checkpoint.interval=0"}), placement, 0);
  BOOST_TEST(one.starts_with("a checkpoint takes "), one);
  BOOST_TEST(says(one, "/runs/small has room for only 0 B"));
}

BOOST_AUTO_TEST_CASE(what_fits_has_no_warning) {
  const auto spec = spec_of();
  const auto placement = launch::place(spec);
  const launch::Machine plenty{.free_cores = 8, .memory_bytes = std::int64_t{1} << 40};
  BOOST_TEST(launch::warnings(spec, placement, plenty).empty());
  const launch::Machine nothing{.free_cores = 0, .memory_bytes = 0};
  BOOST_TEST(launch::warnings(spec, placement, nothing).size() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

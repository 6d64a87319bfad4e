#include "launch/manifest/inputs/host_placement.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "launch/manifest/inputs/warnings.h"
#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(host_placement_test)

namespace {

actors::RunSpec spec_of(const std::vector<std::string>& overrides) {
  return launch::to_run_spec(checked(kSmallManifest, overrides));
}

launch::HostPlacement on_hosts(std::vector<std::string> overrides, const std::string& hosts) {
  overrides.push_back("cluster.hosts=" + hosts);
  const actors::RunSpec spec = spec_of(overrides);
  return launch::place_on_hosts(spec, launch::place(spec));
}

/// The host of each rank.
std::vector<int> host_of_rank(const launch::HostPlacement& placement) {
  std::vector<int> places;
  for (std::size_t host = 0; host < placement.hosts.size(); ++host)
    for (const int rank : placement.hosts[host].ranks) {
      places.resize(std::max(places.size(), static_cast<std::size_t>(rank) + 1), -1);
      places[static_cast<std::size_t>(rank)] = static_cast<int>(host);
    }
  return places;
}

/// Whether the copy of each rank is on another host.
bool copies_are_away(const launch::HostPlacement& placement) {
  const std::vector<int> places = host_of_rank(placement);
  return placement.copies.size() == places.size() &&
         std::ranges::all_of(placement.copies, [&](const launch::HeldCopy& copy) {
           return places[static_cast<std::size_t>(copy.rank)] !=
                  places[static_cast<std::size_t>(copy.copy_on)];
         });
}

double bytes_between(const launch::HostPlacement& placement, int from, int to) {
  for (const launch::HostLink& link : placement.links)
    if (link.from == from && link.to == to) return link.bytes;
  return 0;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_on_this_machine_has_no_hosts) {
  const actors::RunSpec spec = spec_of({"mesh.pp=2"});
  const launch::HostPlacement placement = launch::place_on_hosts(spec, launch::place(spec));
  BOOST_TEST(placement.hosts.empty());
  BOOST_TEST(placement.copies.empty());
}

BOOST_AUTO_TEST_CASE(copies_of_a_pipeline_are_on_the_other_host) {
  const auto placement = on_hosts({"mesh.pp=4"}, "a:2,b:2");
  BOOST_REQUIRE(placement.hosts.size() == 2u);
  BOOST_TEST((placement.hosts[0].ranks == std::vector{0, 1}));
  BOOST_TEST((placement.hosts[1].ranks == std::vector{2, 3}));
  BOOST_TEST((placement.hosts[0].memory_bytes > 0 && placement.hosts[1].memory_bytes > 0));
  BOOST_TEST(copies_are_away(placement));
  BOOST_TEST(placement.survives);
  BOOST_REQUIRE(placement.stage_links.size() == 3u);
  for (const launch::StageLink& link : placement.stage_links)
    BOOST_TEST(link.over_network == (link.from == 1));
}

BOOST_AUTO_TEST_CASE(what_a_host_takes_is_what_its_ranks_do) {
  const actors::RunSpec spec = spec_of({"mesh.pp=3", "cluster.hosts=a:1,b:2"});
  const launch::Placement ranks = launch::place(spec);
  const auto placement = launch::place_on_hosts(spec, ranks);
  BOOST_TEST(placement.hosts[0].memory_bytes + placement.hosts[1].memory_bytes ==
             ranks.host_bytes());
}

BOOST_AUTO_TEST_CASE(bytes_between_hosts_are_those_of_edges_and_copies) {
  const auto bytes = [](const std::string& hosts, bool copies) {
    return on_hosts({"mesh.pp=2",
                     copies ? "recovery.neighbour_copies=true" : "recovery.neighbour_copies=false"},
                    hosts);
  };
  const actors::RunSpec spec = spec_of({"mesh.pp=2"});
  const auto edge =
      static_cast<double>(spec.batch.global * spec.batch.seq_len * spec.model.hidden_size * 4);
  const auto plain = bytes("a,b", false);
  BOOST_TEST(bytes_between(plain, 0, 1) == edge);
  BOOST_TEST(bytes_between(plain, 1, 0) == edge);
  BOOST_TEST(!plain.survives);
  BOOST_TEST(plain.copies.empty());
  const auto copied = bytes("a,b", true);
  const auto state = static_cast<double>(12 * stages::num_parameters(spec.model));
  BOOST_TEST(bytes_between(copied, 0, 1) + bytes_between(copied, 1, 0) == 2 * edge + state);
  BOOST_TEST(copied.hosts[0].sent_bytes == bytes_between(copied, 0, 1));
  BOOST_TEST(copied.hosts[1].received_bytes == bytes_between(copied, 0, 1));
  BOOST_TEST(bytes("a:2", true).links.empty());
}

BOOST_AUTO_TEST_CASE(bytes_between_hosts_are_those_of_replicas) {
  const auto placement = on_hosts({"mesh.dp=2"}, "a,b");
  const auto gradients =
      static_cast<double>(4 * stages::num_parameters(spec_of({"mesh.dp=2"}).model));
  BOOST_TEST(bytes_between(placement, 0, 1) >= gradients);
  BOOST_TEST(bytes_between(placement, 0, 1) < 1.1 * gradients);  // buckets are padded
  BOOST_TEST(bytes_between(placement, 1, 0) == bytes_between(placement, 0, 1));
  BOOST_TEST(copies_are_away(placement));
  BOOST_TEST(placement.survives);
}

BOOST_AUTO_TEST_CASE(what_the_loss_of_a_host_costs) {
  BOOST_TEST(!on_hosts({"mesh.pp=2"}, "a:2").survives);
  BOOST_TEST(!on_hosts({"mesh.pp=4"}, "a:3,b:1").survives);
  BOOST_TEST(on_hosts({"mesh.pp=2", "mesh.tp=2"}, "a:2,b:2").survives);
  const std::string divided = "data_parallel.sharding=optim";
  BOOST_TEST(on_hosts({"mesh.dp=4", divided}, "a:2,b:2").survives);
  BOOST_TEST(copies_are_away(on_hosts({"mesh.dp=4", divided}, "a:2,b:2")));
  BOOST_TEST(!on_hosts({"mesh.dp=2", divided}, "a:2").survives);
  BOOST_TEST(
      !on_hosts({"mesh.dp=4", divided, "recovery.neighbour_copies=false"}, "a:2,b:2").survives);
  const std::vector<std::string> instances{"mesh.dp=4", divided,
                                           "data_parallel.num_optimizer_instances=2"};
  BOOST_TEST(on_hosts(instances, "a:2,b:2").survives);
  BOOST_TEST(copies_are_away(on_hosts(instances, "a:2,b:2")));
}

BOOST_AUTO_TEST_CASE(spare_hosts_have_no_ranks) {
  const auto placement = on_hosts({"mesh.pp=2", "recovery.spare_hosts=1"}, "h[0-2]");
  BOOST_TEST((host_of_rank(placement) == std::vector{0, 1}));
  BOOST_TEST(placement.hosts.size() == 3u);
  expect_error(ErrorKind::unavailable, {"recovery.spare_hosts = 1", "1 host", "a 1"},
               [] { on_hosts({"recovery.spare_hosts=1"}, "a"); });
}

BOOST_AUTO_TEST_CASE(hosts_without_room_or_sense_are_refused) {
  expect_error(ErrorKind::unavailable, {"4 ranks", "3 slots of 2 hosts: a 2, b 1"},
               [] { on_hosts({"mesh.pp=4"}, "a:2,b:1"); });
  expect_error(ErrorKind::unavailable, {"tp = 2", "a 1, b 1"},
               [] { on_hosts({"mesh.tp=2"}, "a,b"); });
  BOOST_TEST((host_of_rank(on_hosts({"mesh.tp=2", "mesh.tp_across_hosts=true"}, "a,b")) ==
              std::vector{0, 1}));
  expect_error(ErrorKind::manifest, {"--set cluster.hosts", "cluster.hosts: h1: 'zero'"},
               [] { on_hosts({}, "h1:zero"); });
}

BOOST_AUTO_TEST_CASE(memory_is_checked_by_host_where_it_is_known) {
  actors::RunSpec spec = spec_of({"mesh.pp=2", "cluster.hosts=a,b"});
  const launch::Placement placement = launch::place(spec);
  const launch::Machine small{.memory_bytes = 1};  // this machine has no rank
  BOOST_TEST(launch::memory_warning(spec, placement, small) == "");
  spec.cluster.hosts[1].memory_bytes = 1 << 20;
  const std::string warning = launch::memory_warning(spec, placement, small);
  BOOST_TEST(warning.find("1 rank would take") == 0u, warning);
  BOOST_TEST(warning.find("but b has 1.0 MiB") != std::string::npos, warning);
  expect_error(ErrorKind::manifest, {"but b has 1.0 MiB"},
               [&] { launch::check_memory(spec, placement, small, "run.toml"); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

#include "actors/protocol/adoption.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/run_specs.h"

// Tests what a director makes of what the workers of an earlier one tell.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(adoption_test)

namespace {

/// Real incarnations are large.
constexpr std::uint64_t kFirst = std::uint64_t{1} << 63;

HeldConfiguration held(std::uint32_t number, int pp, int rank, bool reached) {
  return {.header = {.run = 1, .number = number, .shape = first_shape(test::small_run(pp, 1))},
          .rank = rank,
          .reached = reached};
}

MemberAdopted worker(int number, std::vector<HeldConfiguration> what, std::uint32_t knows = 0) {
  if (!what.empty()) knows = std::max(knows, what.front().header.number);
  return {.member = {.id = number,
                     .incarnation = kFirst + static_cast<std::uint64_t>(number),
                     .host = "h" + std::to_string(number)},
          .configuration = knows,
          .held = std::move(what)};
}

Adoption of(const std::vector<MemberAdopted>& workers) {
  std::vector<LeftWorker> left;
  for (const MemberAdopted& one : workers)
    left.push_back({.incarnation = one.member.incarnation, .host = one.member.host});
  Adoption adoption(left);
  for (const MemberAdopted& one : workers) adoption.take(one);
  return adoption;
}

}  // namespace

BOOST_AUTO_TEST_CASE(it_is_complete_when_all_have_told_or_are_gone) {
  Adoption adoption({{.incarnation = kFirst, .host = "h0"},
                     {.incarnation = kFirst + 1, .host = "h1"},
                     {.incarnation = kFirst + 2, .host = "h1"}});
  adoption.take(worker(0, {held(4, 2, 0, true)}));
  BOOST_TEST((!adoption.expects(kFirst) && adoption.expects(kFirst + 1)));
  BOOST_TEST(adoption.on_host("h1") == (std::vector{kFirst + 1, kFirst + 2}));
  adoption.start();
  BOOST_TEST(!adoption.complete());
  for (const std::uint64_t lost : adoption.on_host("h1")) adoption.gone(lost);
  BOOST_TEST(adoption.complete());
}

BOOST_AUTO_TEST_CASE(nothing_is_decided_before_the_start) {
  const Adoption adoption = of({worker(0, {held(1, 1, 0, true)})});
  BOOST_TEST(!adoption.complete());
}

BOOST_AUTO_TEST_CASE(ranks_that_are_gone_are_nobody) {
  const Adoption adoption = of({worker(1, {held(4, 3, 1, true)}), worker(2, {}, 5)});
  const auto kept = adoption.kept();
  BOOST_REQUIRE(kept.has_value());
  BOOST_TEST((kept->number == 4u && kept->num_ranks() == 3 && kept->members.size() == 3));
  BOOST_TEST(kept->rank_of(kFirst + 1) == 1);
  BOOST_TEST(kept->rank_of(kFirst + 2) == -1);
  BOOST_TEST(kept->members.at(0).incarnation != kept->members.at(2).incarnation);
  BOOST_TEST(adoption.newest() == 5u);  // a halt for it was ordered
}

BOOST_AUTO_TEST_CASE(a_configuration_counts_that_anybody_knows_to_be_reached) {
  const Adoption adoption = of(
      {worker(0, {held(5, 2, 0, false), held(4, 2, 0, true)}), worker(1, {held(5, 2, 1, true)})});
  BOOST_TEST(adoption.kept()->number == 5u);
}

BOOST_AUTO_TEST_CASE(one_that_not_all_are_ready_in_counts_for_nothing) {
  const auto before = held(4, 2, 0, true);
  // Rank 1 of configuration 5 is gone, or was not ready yet.
  BOOST_TEST(of({worker(0, {held(5, 2, 0, false), before})}).kept()->number == 4u);
  // Both are ready: nothing that the one before held is needed.
  BOOST_TEST(of({worker(0, {held(5, 2, 0, false), before}), worker(1, {held(5, 2, 1, false)})})
                 .kept()
                 ->number == 5u);
  // No configuration was ever reached.
  BOOST_TEST(!of({worker(0, {held(1, 2, 0, false)})}).kept().has_value());
  BOOST_TEST(!of({worker(0, {})}).kept().has_value());
}

BOOST_AUTO_TEST_CASE(who_is_gone_tells_nothing) {
  Adoption adoption = of({worker(0, {held(4, 2, 0, true)}), worker(1, {held(4, 2, 1, true)}, 9)});
  adoption.gone(kFirst + 1);
  BOOST_TEST(adoption.kept()->rank_of(kFirst + 1) == -1);
  BOOST_TEST(adoption.newest() == 4u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors

#include "launch/planner/measuring/measuring_processes.h"

#include <signal.h>

#include <boost/test/unit_test.hpp>

#include "tests/support/expect_error.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(measuring_processes_test)

namespace {

using launch::MeasuringProcesses;
using nlohmann::json;

/// Ranks that answer with their order and number. Told to, rank 1 does something else.
MeasuringProcesses::Answer make_answer(int rank, transport::UcxNode&) {
  return [rank](const json& order) {
    if (rank == 1 && order == "throw") throw Error(ErrorKind::data, "the clock is broken");
    if (rank == 1 && order == "die") raise(SIGKILL);
    // As one that waits for the other in a collective.
    while (rank == 0 && order != "measure") pause();
    return json{{"order", order}, {"rank", rank}};
  };
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_rank_answers_every_order) {
  MeasuringProcesses processes(3, make_answer);
  for (int i = 0; i < 2; ++i) {
    const std::vector<json> answers = processes.ask("measure");
    BOOST_REQUIRE(answers.size() == 3u);
    for (int rank = 0; rank < 3; ++rank)
      BOOST_TEST(answers[static_cast<std::size_t>(rank)] ==
                 json({{"order", "measure"}, {"rank", rank}}));
  }
}

BOOST_AUTO_TEST_CASE(a_rank_that_fails_is_named_with_the_reason_while_others_wait_for_it) {
  for (const auto& [order, reason] :
       {std::pair{"throw", "the clock is broken"}, {"die", "signal 9"}}) {
    MeasuringProcesses processes(2, make_answer);
    expect_error(ErrorKind::unavailable, {"rank 1 of 2", reason}, [&] { processes.ask(order); });
  }
  expect_error(ErrorKind::unavailable, {"rank 0 of 1", "no room"}, [] {
    MeasuringProcesses processes(1, [](int, transport::UcxNode&) -> MeasuringProcesses::Answer {
      throw Error(ErrorKind::data, "no room");
    });
    processes.ask("measure");
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

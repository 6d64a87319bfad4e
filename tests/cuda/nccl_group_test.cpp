#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <random>

#include "tests/cuda/nccl_members.h"
#include "tests/support/expect_error.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

// Groups on NCCL: what the contract of groups does not say, and what NCCL has done in the field.

namespace troupe::test {
BOOST_AUTO_TEST_SUITE(nccl_group_test)

namespace {

using tensor::CollectiveSums;
using tensor::Work;

bool has(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

/// The fault of a group, once it has one.
std::string fault_of(const tensor::ProcessGroup& group) {
  while (group.fault().empty()) std::this_thread::yield();
  return group.fault();
}

// --- streams wait, the host does not

BOOST_AUTO_TEST_CASE(a_stream_that_waits_for_a_collective_blocks_nobody) {
  constexpr std::size_t kCount = 1000;
  NcclMembers members(2);
  const auto made = members.make_ready({.name = "g"});
  const auto streams = [&](std::size_t i) { return members.device(i).make_stream(); };
  std::vector<float> x(kCount, 1), y(kCount, 2), copy(kCount), other(kCount);
  const auto waiting = streams(0), free = streams(0), peer = streams(1);
  const auto after = members.device(0).make_event();
  {
    const auto work = made[0].group->all_reduce(*waiting, view(x));
    BOOST_TEST(!work->blocks_host());
    work->wait(*waiting);
  }  // the stream waits for it, so that the handle may go
  members.device(0).ops().copy(*waiting, view(x), view(copy));
  after->record(*waiting);
  members.device(0).ops().copy(*free, view(y), view(other));
  free->synchronize();
  BOOST_TEST((other == y && !after->done()));
  made[1].group->all_reduce(*peer, view(y))->wait();
  after->synchronize();
  BOOST_TEST((copy == std::vector<float>(kCount, 3) && y == copy));
}

BOOST_AUTO_TEST_CASE(a_collective_that_nobody_waits_for_ends_the_group) {
  NcclMembers members(2);
  const auto made = members.make_ready({.name = "g"});
  const auto stream = members.device(0).make_stream();
  std::vector<float> x(10);
  made[0].group->all_reduce(*stream, view(x)).reset();
  BOOST_TEST(has(fault_of(*made[0].group), "all-reduce 0 of group \"g\" was dropped"));
  made[1].group->abort("the other member is gone");
}

BOOST_AUTO_TEST_CASE(a_wait_has_a_deadline_and_a_name) {
  NcclMembers members(2);
  const auto made = members.make_ready({.name = "g", .deadline = std::chrono::milliseconds(50)});
  const auto stream = members.device(0).make_stream();
  std::vector<float> x(10);
  const auto work = made[0].group->all_reduce(*stream, view(x));
  expect_error(ErrorKind::unavailable, {"waited 0.05 s for all-reduce 0 of group \"g\""},
               [&] { work->wait(); });
  made[1].group->abort("the other member has given up");
}

// --- sums

template <typename Check>
void each_sum(CollectiveSums sums, const Check& check) {
  const std::uint64_t seed = fresh_seed();
  constexpr std::size_t kCount = 20'000;
  NcclMembers members(3);
  const auto made = members.make_ready({.name = "g", .sums = sums});
  std::vector<double> exact(kCount);
  for (int m = 0; m < 3; ++m) {
    const auto values = values_of<float>(seed, m, kCount);
    for (std::size_t i = 0; i < kCount; ++i) exact[i] += static_cast<double>(values[i]);
  }
  std::vector<std::vector<float>> results(3);
  std::vector<std::thread> threads;
  for (std::size_t m = 0; m < 3; ++m)
    threads.emplace_back([&, m] {
      const auto stream = members.device(m).make_stream();
      std::vector<float> x = values_of<float>(seed, static_cast<int>(m), kCount);
      made[m].group->all_reduce(*stream, view(x))->wait();
      std::vector<float> in(3 * kCount, 1.5f), out(kCount), all(3 * kCount);
      made[m].group->reduce_scatter(*stream, view(in), view(out))->wait();
      made[m].group->all_gather(*stream, view(out), view(all))->wait();
      if (all == std::vector<float>(3 * kCount, 4.5f)) results[m] = x;
    });
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST((same_bits(results[0], results[1]) && same_bits(results[0], results[2])));
  BOOST_TEST_REQUIRE(results[0].size() == kCount);
  for (std::size_t i = 0; i < kCount; ++i) check(static_cast<double>(results[0][i]), exact[i]);
}

BOOST_AUTO_TEST_CASE(the_librarys_own_sums_are_equal_on_all_members) {
  int differing = 0;
  each_sum(CollectiveSums::library, [&](double sum, double exact) {
    differing += std::abs(sum - exact) > 1e-5 * (1 + std::abs(exact)) ? 1 : 0;
  });
  BOOST_TEST(differing < 20'000 / 100);  // where large numbers cancel
}

/// While a part is added, others travel.
BOOST_AUTO_TEST_CASE(a_sum_in_many_parts_has_the_bits_of_one_in_few) {
  const std::uint64_t seed = fresh_seed();
  constexpr std::size_t kCount = 1'000'000, kPiece = 250'000;  // 4 parts of a slice, or 1
  NcclMembers members(2);
  const auto made = members.make_ready({.name = "g"});
  std::vector<std::vector<float>> whole(2), pieces(2);
  std::vector<std::thread> threads;
  for (std::size_t m = 0; m < 2; ++m)
    threads.emplace_back([&, m] {
      const auto stream = members.device(m).make_stream();
      whole[m] = pieces[m] = values_of<float>(seed, static_cast<int>(m), kCount);
      made[m].group->all_reduce(*stream, view(whole[m]))->wait();
      for (std::size_t begin = 0; begin < kCount; begin += kPiece) {
        const tensor::Tensor piece{pieces[m].data() + begin, tensor::DType::f32,
                                   tensor::Shape{static_cast<std::int64_t>(kPiece)}};
        made[m].group->all_reduce(*stream, piece)->wait();
      }
    });
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST((same_bits(whole[0], whole[1]) && same_bits(whole[0], pieces[0])));
}

BOOST_AUTO_TEST_CASE(a_part_that_cannot_travel_ends_a_sum) {
  const Setting fails("FAKE_NCCL_FAIL", "ncclSend:6:3");
  NcclMembers members(2);
  const auto made = members.make_ready({.name = "g"});
  std::vector<std::string> texts(2);
  std::vector<std::thread> threads;
  for (std::size_t m = 0; m < 2; ++m)
    threads.emplace_back([&, m] {
      const auto stream = members.device(m).make_stream();
      std::vector<float> x(1'000'000);
      try {
        made[m].group->all_reduce(*stream, view(x))->wait();
      } catch (const Error& error) {
        texts[m] = error.what();
        made[1 - m].group->abort("the other member has failed");
      }
    });
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(has(texts[0] + texts[1], "3 (internal error)"), texts[0] + texts[1]);
  BOOST_TEST((!texts[0].empty() && !texts[1].empty()));
}

// --- communicators

BOOST_AUTO_TEST_CASE(groups_of_the_same_members_share_a_communicator) {
  const Setting memory("FAKE_NCCL_MEMORY", "512:1024");  // of two members, each with one
  NcclMembers members(2);
  const auto first = members.make_ready({.name = "a", .epoch = 7});
  const auto second = members.make_ready({.name = "b", .epoch = 7});
  const auto third = members.make({.name = "c", .epoch = 8});
  std::string text;
  while (text.empty()) text = third[0].group->fault() + third[1].group->fault();
  BOOST_TEST(has(text, "out of memory"), text);
  for (const auto& member : third) member.group->abort("it has no memory");
}

BOOST_AUTO_TEST_CASE(a_group_of_one_member_has_none) {
  const Setting memory("FAKE_NCCL_MEMORY", "512:1");
  NcclMembers members(1);
  const auto made = members.make_ready({.name = "alone"});
  const auto stream = members.device(0).make_stream();
  std::vector<float> x{1, 2};
  made[0].group->all_reduce(*stream, view(x))->wait();
  BOOST_TEST((x == std::vector<float>{1, 2}));
}

BOOST_AUTO_TEST_CASE(communicators_in_another_order_are_found) {
  NcclMembers members(2);
  const auto a = members.make_ready({.name = "a", .epoch = 1});
  const auto b = members.make_ready({.name = "b", .epoch = 2});
  std::vector<float> x(10), y(10);
  const auto first = members.device(0).make_stream(), second = members.device(1).make_stream();
  std::vector<std::unique_ptr<Work>> works;
  works.push_back(a[0].group->all_reduce(*first, view(x)));
  works.push_back(b[0].group->all_reduce(*first, view(y)));
  std::vector<float> v(10), w(10);
  works.push_back(b[1].group->all_reduce(*second, view(w)));
  works.push_back(a[1].group->all_reduce(*second, view(v)));
  const auto found = [&](const auto& group) { return has(group.fault(), "deadlock"); };
  while (!found(*a[0].group) && !found(*a[1].group) && !found(*b[0].group) && !found(*b[1].group))
    std::this_thread::yield();
  for (const auto* made : {&a, &b})
    for (const auto& member : *made) member.group->abort("launched in different orders");
  for (const auto& work : works) BOOST_CHECK_THROW(work->wait(), Error);
}

BOOST_AUTO_TEST_CASE(calls_that_do_not_fit_hang_and_end_with_their_name) {
  NcclMembers members(2);
  const auto made = members.make_ready({.name = "g", .deadline = std::chrono::milliseconds(200)});
  std::vector<std::string> texts(2);
  std::vector<std::thread> threads;
  for (std::size_t m = 0; m < 2; ++m)
    threads.emplace_back([&, m] {
      const auto stream = members.device(m).make_stream();
      std::vector<float> x(10 + m);
      try {
        made[m].group->broadcast(*stream, view(x), 0)->wait();
      } catch (const Error& error) {
        texts[m] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) BOOST_TEST(has(text, "broadcast 0 of group \"g\""), text);
}

// --- the start

BOOST_AUTO_TEST_CASE(a_start_may_take_its_time) {
  const TempDir dir;
  const auto hold = write_file(dir.path() / "hold", "");
  const Setting held("FAKE_NCCL_HOLD", hold);
  NcclMembers members(2);
  const auto made = members.make({.name = "g"});
  BOOST_TEST((!made[0].group->is_ready() && !made[1].group->is_ready()));
  std::filesystem::remove(hold);
  for (const auto& member : made)
    while (!member.group->is_ready()) std::this_thread::yield();
}

/// A group is aborted while its start is held, while it lacks a member, and in its last calls.
BOOST_AUTO_TEST_CASE(an_abort_ends_every_state_of_a_start) {
  const TempDir dir;
  for (const std::string state : {"held", "without peers", "late"}) BOOST_TEST_CONTEXT(state) {
      const auto hold = write_file(dir.path() / "hold", "");
      if (state != "held") std::filesystem::remove(hold);
      const Setting held("FAKE_NCCL_HOLD", hold);
      const Setting polls("FAKE_NCCL_POLLS", state == "late" ? "1000000" : "3");
      NcclMembers members(2);
      auto made = members.make({.name = "g"});
      if (state == "without peers") made[1].group.reset();
      made[0].group->abort("rank 1 was killed by signal 9");
      BOOST_TEST(has(made[0].group->fault(), "rank 1 was killed by signal 9"));
      BOOST_TEST(!made[0].group->is_ready());
    }
}

BOOST_AUTO_TEST_CASE(a_start_that_fails_tells_why) {
  const Setting fails("FAKE_NCCL_FAIL", "ncclCommInitRankConfig:1:2");
  NcclMembers members(2);
  const auto made = members.make({.name = "g"});
  while (made[0].group->fault().empty() && made[1].group->fault().empty())
    std::this_thread::yield();
  const std::string text = made[0].group->fault() + made[1].group->fault();
  BOOST_TEST(has(text, "ncclCommInitRankConfig failed with 2 (unhandled system error)"), text);
  for (const auto& member : made) member.group->abort("the start has failed");
}

BOOST_AUTO_TEST_CASE(a_call_that_fails_ends_the_group) {
  const Setting fails("FAKE_NCCL_FAIL", "ncclGroupEnd:1:3");
  NcclMembers members(2);
  const auto made = members.make_ready({.name = "g"});
  const auto stream = members.device(0).make_stream();
  std::vector<float> x(10);
  expect_error(ErrorKind::unavailable, {"3 (internal error)"},
               [&] { made[0].group->all_reduce(*stream, view(x)); });
  BOOST_TEST(!made[0].group->is_ready());
  made[1].group->abort("a call has failed");
}

// --- the library

BOOST_AUTO_TEST_CASE(an_older_nccl_is_refused_by_name) {
  const Setting version("FAKE_NCCL_VERSION", "22707");
  NcclMembers members(2);
  for (const auto& member : members.make({.name = "g"})) {
    BOOST_TEST(!member.group);
    BOOST_TEST(has(member.fault, "NCCL 2.27.7, and 2.28.0 or later is needed"), member.fault);
  }
}

BOOST_AUTO_TEST_CASE(a_file_that_is_no_library_gives_one_clear_error) {
  const TempDir dir;
  write_file(dir.path() / "libnccl.so.2", "no library");
  NcclMembers members(2, {.folder = dir.path()});
  for (const auto& member : members.make({.name = "g"})) {
    BOOST_TEST(!member.group);
    BOOST_TEST(has(member.fault, "libnccl.so.2 cannot be opened: "), member.fault);
  }
}

// --- the end

/// NCCL frees a communicator once no kernel runs, of any: one that is not revoked keeps all.
BOOST_AUTO_TEST_CASE(all_communicators_of_a_device_end_together) {
  NcclMembers members(2);
  const auto a = members.make_ready({.name = "a", .epoch = 1});
  const auto b = members.make_ready({.name = "b", .epoch = 2});
  const auto stream = members.device(0).make_stream();
  std::vector<float> x(10), y(10);
  const auto first = a[0].group->all_reduce(*stream, view(x));
  const auto second = b[0].group->all_reduce(*stream, view(y));
  a[0].group->abort("rank 1 was killed by signal 9");
  expect_error(ErrorKind::unavailable, {"signal 9"}, [&] { first->wait(); });
  expect_error(ErrorKind::unavailable, {"signal 9"}, [&] { second->wait(); });
  b[1].group->abort("rank 0 has left");
}

BOOST_AUTO_TEST_CASE(an_abort_that_never_returns_ends_the_process) {
  const pid_t child = fork();
  if (child == 0) {
    const Setting hangs("FAKE_NCCL_ABORT", "hangs");
    NcclMembers members(2, {.end_deadline = std::chrono::milliseconds(100)});
    const auto made = members.make_ready({.name = "g"});
    made[0].group->abort("it hangs");
    for (;;) pause();
  }
  int status = 0;
  BOOST_TEST_REQUIRE(waitpid(child, &status, 0) == child);
  BOOST_TEST((WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::test

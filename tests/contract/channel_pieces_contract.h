#pragma once

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>
#include <numeric>
#include <random>
#include <vector>

#include "tests/contract/bridges.h"
#include "tests/contract/channel_contract.h"

// Tests of what every Channel promises of edges that carry pieces of tensors. Included after
// `Worlds` is defined, as channel_contract.h says.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(channel_pieces_contract)

constexpr int kMostRanks = 6;

/// Bridges of equal parts, of the same rows to several receivers, and of rows that neither end has
/// as a whole.
inline std::vector<Bridge> bridges(std::int64_t hidden, int slots) {
  std::vector<Bridge> all;
  for (const auto& [senders, receivers] : {std::pair{2, 1}, {1, 2}, {4, 2}, {2, 4}})
    all.push_back(bridge(senders, receivers, hidden, slots));
  all.push_back({{{0, 8}}, {{0, 8}, {0, 8}}, hidden, slots});
  all.push_back({{{0, 8}}, {{0, 5}, {3, 5}}, hidden, slots});
  all.push_back({{{0, 3}, {3, 3}, {6, 3}, {9, 3}}, {{0, 8}, {4, 8}}, hidden, slots});
  return all;
}

/// Runs a body for each of the ranks, in threads of their own.
template <typename Body>
void on_each(const std::vector<int>& ranks, Body body) {
  std::vector<std::future<void>> running;
  for (const int rank : ranks) running.push_back(runner([&body, rank] { body(rank); }));
  for (auto& one : running) one.get();
}

BOOST_AUTO_TEST_CASE_TEMPLATE(pieces_make_whole_tensors, World, Worlds) {
  World world(kMostRanks);
  std::uint32_t configuration = 0;
  for (const auto& [hidden, slots] : {std::pair{5, 1}, {5, 3}, {7001, 2}}) {
    for (const Bridge& made : bridges(hidden, slots)) {
      open_all(world, made.num_ranks(), made.forward(), ++configuration);
      std::atomic<int> wrong{0};
      on_each(made.ranks(), [&](int rank) {
        Channel& channel = world.channel(rank);
        for (int i = 0; i < 15; ++i) {
          if (made.sends(rank))
            send_rows(channel, forth(1, i), made.rows_of(rank));
          else if (!receive_rows(channel, forth(1, i), made.rows_of(rank)))
            ++wrong;
        }
        channel.flush();
      });
      BOOST_TEST(wrong == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(gradients_of_pieces_come_back, World, Worlds) {
  World world(kMostRanks);
  std::uint32_t configuration = 0;
  for (const auto& [senders, receivers] : {std::pair{2, 1}, {1, 2}, {4, 2}, {2, 4}}) {
    const Bridge made = bridge(senders, receivers, 300, 2);
    open_all(world, made.num_ranks(), made.both_ways(), ++configuration);
    std::atomic<int> wrong{0};
    on_each(made.ranks(), [&](int rank) {
      Channel& channel = world.channel(rank);
      const Rows& rows = made.rows_of(rank);
      for (std::uint64_t step = 0; step < 30; ++step) {
        if (made.sends(rank)) send_rows(channel, forth(step), rows);
        const MessageKey key = made.sends(rank) ? back(step) : forth(step);
        if (!receive_rows(channel, key, rows)) ++wrong;
        if (!made.sends(rank)) send_rows(channel, back(step), rows);
      }
      channel.flush();
    });
    BOOST_TEST(wrong == 0);
  }
}

/// Each receiver asks for messages and frees them in an order of its own.
BOOST_AUTO_TEST_CASE_TEMPLATE(pieces_are_found_in_random_orders, World, Worlds) {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  World world(kMostRanks);
  std::uint32_t configuration = 0;
  for (int round = 0; round < 4; ++round) {
    const int slots = 1 + static_cast<int>(random() % 5);
    const auto hidden = 1 + static_cast<std::int64_t>(random() % 3000);
    for (const Bridge& made : bridges(hidden, slots)) {
      open_all(world, made.num_ranks(), made.forward(), ++configuration);
      std::vector<int> sent(static_cast<std::size_t>(6 * slots));
      std::iota(sent.begin(), sent.end(), 0);
      for (auto at = sent.begin(); at != sent.end(); at += slots)
        std::shuffle(at, at + slots, random);  // all senders send in one order
      const std::uint64_t of_round = random();
      std::atomic<int> wrong{0};
      on_each(made.ranks(), [&](int rank) {
        Channel& channel = world.channel(rank);
        const Rows& rows = made.rows_of(rank);
        if (made.sends(rank)) {
          for (const int i : sent) send_rows(channel, forth(1, i), rows);
          return channel.flush();
        }
        std::mt19937_64 own(of_round + static_cast<std::uint64_t>(rank));
        for (int first = 0; first < 6 * slots; first += slots) {
          std::vector<int> window(static_cast<std::size_t>(slots));
          std::iota(window.begin(), window.end(), first);
          std::shuffle(window.begin(), window.end(), own);
          for (const int i : window)
            if (!has_rows(channel.receive(forth(1, i)), forth(1, i), rows)) ++wrong;
          std::shuffle(window.begin(), window.end(), own);
          for (const int i : window) channel.release(forth(1, i));
        }
      });
      BOOST_TEST(wrong == 0, "seed " << seed << ", round " << round);
    }
  }
}

/// A receiver that keeps one tensor goes on with the other slots, in the same order for all
/// senders.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_held_tensor_of_pieces_stays_as_it_is, World, Worlds) {
  const Bridge made = bridge(2, 1, 900, 3);
  World world(3);
  open_all(world, 3, made.forward());
  constexpr int kMessages = 40;
  auto senders = runner([&] {
    on_each({0, 1}, [&](int rank) {
      for (int i = 0; i < kMessages; ++i)
        send_rows(world.channel(rank), forth(1, i), made.rows_of(rank));
    });
  });
  Channel& receiver = world.channel(2);
  const Rows& rows = made.rows_of(2);
  const tensor::Tensor first = receiver.receive(forth(1, 0));
  for (int i = 1; i < kMessages; ++i) BOOST_TEST(receive_rows(receiver, forth(1, i), rows));
  senders.get();
  BOOST_TEST(has_rows(first, forth(1, 0), rows));
  receiver.release(forth(1, 0));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

#include "launch/host/host_list.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"

// Any text of hosts gives hosts with names of their own, or is refused with one Error.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(host_list_fuzz_test)

namespace {

using Hosts = std::vector<actors::Host>;

/// Checks hosts, or the error instead of them. True if there are some.
template <typename Read>
bool survives(ErrorKind kind, const Read& read) {
  try {
    const Hosts hosts = read();
    std::set<std::string> names;
    const auto is_letter = [](unsigned char c) { return c > ' ' && c < 127 && c != ','; };
    const bool good = std::ranges::all_of(hosts, [&](const actors::Host& host) {
      return names.insert(host.name).second && !host.name.empty() && host.name.front() != '-' &&
             std::ranges::all_of(host.name, is_letter) && host.slots >= 1 && host.slots <= 4096;
    });
    BOOST_TEST((good && !hosts.empty()));
    return true;
  } catch (const Error& error) {
    BOOST_TEST(static_cast<int>(error.kind()) == static_cast<int>(kind));
    BOOST_TEST(std::string(error.what()).starts_with("hosts:"));
    return false;
  }
}

bool list_survives(const std::string& text) {
  return survives(ErrorKind::usage, [&] {
    return launch::parse_hosts({&text, 1}, "hosts", ErrorKind::usage);
  });
}

bool file_survives(const std::string& text) {
  return survives(ErrorKind::data, [&] { return launch::parse_hostfile(text, "hosts"); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(mutated_lists_and_files) {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  int accepted = 0;
  for (int i = 0; i < 5000; ++i) {
    constexpr const char* kTexts[] = {"n[01-16]:8,big:32", "h[0-2,5]", "r[1-2]n[08-10],[fe80::1]:4",
                                      "h0 slots=2\nh1 slots=4 max_slots=8\n",
                                      "# hosts\n\nh0:2\nh1\n[::1%eth0]:2 # one\n"};
    const std::string text = mutated(kTexts[below(random, std::size(kTexts))], random);
    BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " round " << i) {
      accepted += list_survives(text);
      accepted += file_survives(text);
    }
  }
  BOOST_TEST(accepted > 0);
}

BOOST_AUTO_TEST_CASE(letters_in_any_order) {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  for (int i = 0; i < 5000; ++i) {
    constexpr std::string_view kLetters = "ab019--[[]],,::.%# =slots\n";
    std::string text;
    for (std::size_t size = below(random, 24); size > 0; --size)
      text += kLetters[below(random, kLetters.size())];
    BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " " << text) {
      list_survives(text);
      file_survives(text);
    }
  }
}

BOOST_AUTO_TEST_CASE(ranges_stand_for_their_numbers) {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t width = 1 + below(random, 4);
    std::set<std::size_t> numbers;
    for (std::size_t n = 1 + below(random, 6); n > 0; --n) numbers.insert(below(random, 2000));
    std::string list;
    Hosts expected;
    const int slots = 1 + static_cast<int>(below(random, 9));
    const auto padded = [&](std::size_t n) {
      const std::string text = std::to_string(n);
      return std::string(width - std::min(width, text.size()), '0') + text;
    };
    for (const std::size_t first : numbers) {
      const auto next = numbers.upper_bound(first);
      const std::size_t most = next == numbers.end() ? 50 : *next - first - 1;
      const std::size_t last = first + below(random, 1 + std::min<std::size_t>(most, 20));
      list += (list.empty() ? "" : ",") + padded(first);
      if (last > first || below(random, 2) == 0) list += "-" + padded(last);
      for (std::size_t n = first; n <= last; ++n)
        expected.push_back({.name = "n" + padded(n) + ".x", .slots = slots});
    }
    list = "n[" + list + "].x:" + std::to_string(slots);
    BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " " << list)
    BOOST_TEST((launch::parse_hosts({&list, 1}, "hosts", ErrorKind::usage) == expected));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

#include "tensor/cuda/products/algorithm_store.h"

#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <random>

#include "tensor/errors/error.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace troupe::tensor::cuda {

BOOST_AUTO_TEST_SUITE(algorithm_store_test)

namespace {

using Algorithm = AlgorithmStore::Algorithm;

Algorithm algorithm_of(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Algorithm algorithm;
  for (std::uint64_t& word : algorithm) word = random();
  return algorithm;
}

Algorithm must_not_choose() {
  throw std::logic_error("chose again what is kept");
}

BOOST_AUTO_TEST_CASE(a_choice_is_made_once_and_read_by_everyone_later) {
  const test::TempDir folder;
  const std::uint64_t seed = test::fresh_seed();
  const Algorithm first = algorithm_of(seed), second = algorithm_of(seed + 1);
  AlgorithmStore one(folder / "products"), other(folder / "products");
  BOOST_TEST((one.find_or_choose("GPU A, forward", [&] { return first; }) == first));
  BOOST_TEST((one.find_or_choose("GPU A, forward", must_not_choose) == first));
  BOOST_TEST((other.find_or_choose("GPU A, forward", must_not_choose) == first));
  BOOST_TEST((other.find_or_choose("GPU B, forward", [&] { return second; }) == second));
  BOOST_TEST((one.find_or_choose("GPU B, forward", must_not_choose) == second));
  AlgorithmStore later(folder / "products");
  BOOST_TEST((later.find_or_choose("GPU B, forward", must_not_choose) == second));
  BOOST_TEST((later.find_or_choose("GPU A, forward", must_not_choose) == first));
}

/// The exit code of a process that asks for all of `keys` choices, each of which it would make
/// differently from every other process, and writes what it got to `result`.
pid_t start_process(const std::filesystem::path& file, const std::filesystem::path& result,
                    std::uint64_t seed, int keys) {
  const pid_t child = fork();
  if (child != 0) return child;
  AlgorithmStore store(file);
  std::ofstream out(result);
  for (int key = 0; key < keys; ++key) {
    const auto number = static_cast<std::uint64_t>(key);
    for (const std::uint64_t word : store.find_or_choose(
             "product " + std::to_string(key), [&] { return algorithm_of(seed + number); }))
      out << word << ' ';
  }
  out.close();
  _exit(out ? 0 : 1);
}

BOOST_AUTO_TEST_CASE(processes_that_choose_at_the_same_time_agree) {
  const test::TempDir folder;
  const std::uint64_t seed = test::fresh_seed();
  constexpr int kProcesses = 6, kKeys = 20;
  std::vector<pid_t> children;
  const auto result = [&](int p) { return folder / ("result-" + std::to_string(p)); };
  for (int p = 0; p < kProcesses; ++p)
    children.push_back(start_process(folder / "products", result(p),
                                     seed + 1000 * static_cast<std::uint64_t>(p), kKeys));
  for (const pid_t child : children) {
    int status = -1;
    BOOST_TEST(waitpid(child, &status, 0) == child);
    BOOST_TEST(status == 0);
  }
  const std::string first = test::content_of(result(0));
  BOOST_TEST(!first.empty());
  for (int p = 1; p < kProcesses; ++p) BOOST_TEST(test::content_of(result(p)) == first);
}

BOOST_AUTO_TEST_CASE(any_damage_is_an_error) {
  const test::TempDir folder;
  const std::uint64_t seed = test::fresh_seed();
  const auto file = folder / "products";
  AlgorithmStore(file).find_or_choose("first", [&] { return algorithm_of(seed); });
  AlgorithmStore(file).find_or_choose("second", [&] { return algorithm_of(seed + 1); });
  const std::string whole = test::content_of(file);
  const auto is_refused = [&](const std::string& content) {
    test::write_file(file, content);
    try {
      AlgorithmStore(file).find_or_choose("first", must_not_choose);
      return false;
    } catch (const Error& error) {
      return error.kind() == ErrorKind::data &&
             std::string(error.what()).find(file.string()) != std::string::npos;
    }
  };
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    BOOST_TEST(is_refused(changed), "seed " << seed << ": byte " << i << " was changed");
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, whole.size() - 1})
    BOOST_TEST(is_refused(whole.substr(0, size)), "cut to " << size << " bytes");
  BOOST_TEST(is_refused(whole + "\n"));
  test::write_file(file, whole);
  AlgorithmStore(file).find_or_choose("second", must_not_choose);
}

BOOST_AUTO_TEST_CASE(a_choice_that_fails_is_not_kept) {
  const test::TempDir folder;
  const Algorithm chosen = algorithm_of(test::fresh_seed());
  AlgorithmStore store(folder / "products");
  BOOST_CHECK_THROW(store.find_or_choose("key", must_not_choose), std::logic_error);
  BOOST_TEST((AlgorithmStore(folder / "products").find_or_choose("key", [&] { return chosen; }) ==
              chosen));
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_not_there_is_named) {
  AlgorithmStore store("/nowhere/at/all/products");
  BOOST_CHECK_EXCEPTION(
      store.find_or_choose("key", [] { return Algorithm{}; }), Error, [](const Error& error) {
        return error.kind() == ErrorKind::unavailable &&
               std::string(error.what()).find("/nowhere/at/all/products") != std::string::npos;
      });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor::cuda

#include "launch/run/result_file.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <iterator>
#include <thread>

#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(result_file_test)

namespace {

namespace fs = std::filesystem;
using launch::ResultFile;

}  // namespace

BOOST_AUTO_TEST_CASE(an_ordinary_file_appears_when_it_is_complete) {
  const TempDir dir;
  const std::string path = (dir.path() / "a result").string();
  {
    ResultFile file(path);
    BOOST_TEST(!fs::exists(path));
    file.write("new");
  }
  BOOST_TEST(content_of(path) == "new");
  { const ResultFile given_up(path); }
  BOOST_TEST(content_of(path) == "new");
  BOOST_TEST(std::distance(fs::directory_iterator(dir.path()), {}) == 1);
}

BOOST_AUTO_TEST_CASE(a_pipe_stays_a_pipe_and_is_written_to) {
  const TempDir dir;
  const std::string path = (dir.path() / "pipe").string();
  BOOST_REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  std::string read;
  std::thread reader([&] { read = content_of(path); });
  { ResultFile(path).write("through"); }
  reader.join();
  BOOST_TEST(read == "through");
  BOOST_TEST(fs::is_fifo(path));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_is_the_users_error) {
  const TempDir dir;
  expect_error(ErrorKind::data, {"name"}, [] { ResultFile(""); });
  expect_error(ErrorKind::data, {dir.path().string(), "directory"},
               [&] { ResultFile(dir.path().string()); });
  expect_error(ErrorKind::data, {"none/x", "No such file"},
               [&] { ResultFile((dir.path() / "none/x").string()); });
  expect_error(ErrorKind::data, {"/dev/full", "No space left"},
               [] { ResultFile("/dev/full").write("x"); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

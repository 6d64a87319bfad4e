#include "actors/files/log_tails.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(log_tails_test)

using namespace actors;

namespace fs = std::filesystem;

namespace {

void append(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::app) << text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_line_is_told_once) {
  const TempDir host, run;
  const fs::path log = host / "rank-1" / "output";
  append(log, "of an earlier worker\n");
  LogTails tails;
  tails.begin(log);
  BOOST_TEST(!tails.take(log, "h1"));
  append(log, "first\n");
  add_tail(run.path(), tails.take(log, "h1").value());
  append(log, "second\n");
  add_tail(run.path(), tails.take(log, "h1").value());
  BOOST_TEST(!tails.take(log, "h1"));
  BOOST_TEST(content_of(run / "rank-1/output") == "first\nsecond\n");
}

BOOST_AUTO_TEST_CASE(of_a_long_log_the_last_whole_lines_come_and_where_the_rest_is) {
  const TempDir host;
  const fs::path log = host / "rank-1" / "output";
  LogTails tails;
  tails.begin(log);
  for (int line = 0; line < 10000; ++line) append(log, "line " + std::to_string(line) + "\n");
  const LogTail tail = tails.take(log, "h1").value();
  BOOST_TEST(std::ssize(tail.text) <= kTailBytes + 200);
  BOOST_TEST(
      tail.text.starts_with("(lines before these are in " + log.string() + " on host h1)\nline "));
  BOOST_TEST(tail.text.ends_with("\nline 9999\n"));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_written_anew_replaces_what_was_told) {
  const TempDir host, run;
  const fs::path file = host / "rank-1" / "collectives.jsonl";
  LogTails tails;
  BOOST_TEST(!tails.take_anew(file));
  append(file, "{}\n");
  add_tail(run.path(), tails.take_anew(file).value());
  BOOST_TEST(!tails.take_anew(file));
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  add_tail(run.path(), tails.take_anew(file).value());
  BOOST_TEST(content_of(run / "rank-1/collectives.jsonl") == "{}\n");
}

BOOST_AUTO_TEST_CASE(a_tail_can_only_be_of_a_workers_log) {
  const TempDir run;
  expect_error(ErrorKind::data, {"no file of a worker's log"},
               [&] { add_tail(run / "logs", {.folder = "..", .file = "lock", .text = "x"}); });
  expect_error(ErrorKind::data, {"no file of a worker's log"},
               [&] { add_tail(run / "logs", {.folder = "rank-1", .file = "a/b", .text = "x"}); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

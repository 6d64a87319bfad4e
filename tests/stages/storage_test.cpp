#include <sys/resource.h>

#include <boost/test/unit_test.hpp>
#include <csignal>

#include "stages/storage/claim.h"
#include "stages/storage/input_file.h"
#include "stages/storage/json_reason.h"
#include "stages/storage/mapped_file.h"
#include "stages/storage/output_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(storage_test)

using namespace troupe;
using namespace troupe::stages;
using test::expect_error;

namespace {

std::size_t num_files(const test::TempDir& dir) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(dir.path()), {}));
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_cannot_be_opened_is_named_with_the_reason) {
  const test::TempDir dir;
  expect_error(ErrorKind::data, {"nowhere.txt", "No such file"},
               [&] { InputFile::open(dir / "nowhere.txt"); });
  expect_error(ErrorKind::data, {dir.path().string(), "Is a directory"},
               [&] { InputFile::open(dir.path()); });
  expect_error(ErrorKind::data, {"/dev/null", "not a regular file"},
               [] { InputFile::open("/dev/null"); });
  expect_error(ErrorKind::data, {"nowhere.txt"}, [&] { MappedFile::open(dir / "nowhere.txt"); });
}

#ifndef __SANITIZE_ADDRESS__  // UBSan, which comes with it, needs pipes to look at memory
BOOST_AUTO_TEST_CASE(a_lack_of_descriptors_is_no_fault_of_a_file) {
  const test::TempDir dir;
  const std::string file = dir.write("a.txt", "text");
  rlimit before{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  std::vector<std::pair<ErrorKind, std::string>> said;
  const auto note = [&](const auto& body) {
    try {
      body();
    } catch (const Error& error) {
      said.emplace_back(error.kind(), error.what());
    }
  };
  ::setrlimit(RLIMIT_NOFILE, &none);
  note([&] { InputFile::open(file); });
  note([&] { why_unreadable(file, "no such file"); });
  ::setrlimit(RLIMIT_NOFILE, &before);
  BOOST_TEST(said.size() == 2u);
  for (const auto& [kind, text] : said) {
    BOOST_TEST((kind == ErrorKind::unavailable));
    BOOST_TEST(text == file +
                           ": cannot open: the machine has no descriptor left (ulimit -n allows "
                           "a process 0)");
  }
}
#endif

BOOST_AUTO_TEST_CASE(of_json_that_cannot_be_parsed_the_parser_tells_why_and_where) {
  const auto reason = [](const std::string& text) -> std::string {
    try {
      return nlohmann::json::parse(text).dump();
    } catch (const nlohmann::json::exception& error) {
      return json_reason(error);
    }
  };
  BOOST_TEST(reason("{\n  \"a\": 1,\n}") ==
             "line 3, column 1: syntax error while parsing object key - unexpected '}'; expected "
             "string literal");
  BOOST_TEST(reason("1e999") == "number overflow parsing '1e999'");
  std::string open = "[\"";
  for (int i = 0; i < 100; ++i) open += "\u00e4";
  const std::string of_open = reason(open);
  BOOST_TEST(of_open.starts_with("line 1, column 203: syntax error"), of_open);
  BOOST_TEST(of_open.ends_with("\u00e4..."), of_open);
}

BOOST_AUTO_TEST_CASE(a_read_beyond_the_end_is_refused) {
  const test::TempDir dir;
  const InputFile file = InputFile::open(dir.write("short", "12345"));
  std::string buffer(4, ' ');
  file.read(1, std::as_writable_bytes(std::span(buffer)));
  BOOST_TEST(buffer == "2345");
  expect_error(ErrorKind::data, {"short", "ends at byte 5, 1 bytes too early"},
               [&] { file.read(2, std::as_writable_bytes(std::span(buffer))); });
}

BOOST_AUTO_TEST_CASE(a_whole_file_is_read_up_to_its_limit) {
  const test::TempDir dir;
  const std::string path = dir.write("five", "12345");
  BOOST_TEST(read_whole_file(path, 5) == "12345");
  expect_error(ErrorKind::data, {"five", "5 bytes", "at most 4"},
               [&] { read_whole_file(path, 4); });
}

BOOST_AUTO_TEST_CASE(a_map_shows_the_bytes_and_an_empty_file_maps_to_nothing) {
  const test::TempDir dir;
  const MappedFile file = MappedFile::open(dir.write("text", "abc"));
  BOOST_TEST(file.bytes().size() == 3u);
  BOOST_TEST((file.bytes()[2] == std::byte{'c'}));
  BOOST_TEST(MappedFile::open(dir.write("empty", "")).bytes().empty());
}

BOOST_AUTO_TEST_CASE(a_published_file_appears_at_once_and_replaces) {
  const test::TempDir dir;
  const std::string path = dir.write("name", "old");
  PublishedFile file(path);
  file.file().write("new");
  BOOST_TEST(test::content_of(path) == "old");
  file.publish();
  BOOST_TEST(test::content_of(path) == "new");
  BOOST_TEST(num_files(dir) == 1u);
}

BOOST_AUTO_TEST_CASE(an_unpublished_file_leaves_nothing) {
  const test::TempDir dir;
  { PublishedFile(dir / "name").file().write("half"); }
  BOOST_TEST(num_files(dir) == 0u);
}

BOOST_AUTO_TEST_CASE(two_writers_of_one_name_both_publish_a_whole_file) {
  const test::TempDir dir;
  PublishedFile first(dir / "name"), second(dir / "name");
  first.file().write("first");
  second.file().write("second");
  second.publish();
  first.publish();
  BOOST_TEST(test::content_of(dir / "name") == "first");
  BOOST_TEST(num_files(dir) == 1u);
}

BOOST_AUTO_TEST_CASE(parts_of_a_file_are_written_at_their_places) {
  const test::TempDir dir;
  OutputFile::create(dir / "name").resize(8);
  OutputFile first = OutputFile::open(dir / "name"), second = OutputFile::open(dir / "name");
  const std::string text = "abc";
  first.write_at(5, std::as_bytes(std::span(text)));
  second.write_at(1, std::as_bytes(std::span(text)));
  BOOST_TEST(test::content_of(dir / "name") == std::string("\0abc\0abc", 8));
  expect_error(ErrorKind::internal, {"nowhere/name", "No such file"},
               [&] { OutputFile::open(dir / "nowhere/name"); });
}

BOOST_AUTO_TEST_CASE(a_claim_stands_until_the_text_is_another_or_gone) {
  const test::TempDir dir;
  BOOST_TEST(Claim{}.stands());
  std::filesystem::create_directory(dir / "run");
  const Claim claim{.file = dir.write("run/lock", "process 1, 5f"), .text = "process 1, 5f"};
  BOOST_TEST(claim.stands());
  for (const char* other : {"process 2, 5f", "process 1, 5f1", "process 1", ""}) {
    dir.write("run/lock", other);
    BOOST_TEST(!claim.stands());
  }
  dir.write("run/lock", claim.text);
  claim.check();
  std::filesystem::rename(dir / "run", dir / "moved");
  BOOST_TEST(!claim.stands());
  expect_error(ErrorKind::data, {(dir / "run").string(), "moved"}, [&] { claim.check(); });
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_an_error_with_path_and_reason) {
  const test::TempDir dir;
  std::filesystem::create_symlink("/dev/full", dir / "full");
  expect_error(ErrorKind::internal, {"full", "No space left on device"},
               [&] { write_whole_file(dir / "full", "text"); });
  BOOST_CHECK_THROW(write_whole_file(dir / "full", "text"), DiskFull);
  const test::FileSizeLimit limit(1000);
  expect_error(ErrorKind::internal, {"large", "File too large"},
               [&] { write_whole_file(dir / "large", std::string(2000, 'x')); });
}

BOOST_AUTO_TEST_CASE(a_file_in_a_missing_directory_is_refused) {
  const test::TempDir dir;
  expect_error(ErrorKind::internal, {"missing/name", "No such file"},
               [&] { write_whole_file(dir / "missing/name", "text"); });
  expect_error(ErrorKind::internal, {"missing/name"}, [&] { PublishedFile(dir / "missing/name"); });
}

BOOST_AUTO_TEST_SUITE_END()

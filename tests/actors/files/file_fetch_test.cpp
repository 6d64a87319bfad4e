#include "actors/files/file_fetch.h"

#include <boost/test/unit_test.hpp>
#include <caf/actor_system.hpp>
#include <filesystem>

#include "actors/files/served_files.h"
#include "stages/storage/not_there.h"
#include "stages/storage/xxh64.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

// Files travel block by block between two actors.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(file_fetch_test)

using namespace actors;

namespace {

/// A host whose files lie in a folder, as an actor; of a file `cut`, so many blocks are sent.
struct Served {
  TempDir dir;
  ControlPlaneConfig config{1};
  caf::actor_system system{config};
  std::uint64_t blocks_left = 1 << 20;
  caf::actor server = system.spawn([this](caf::event_based_actor* self) -> caf::behavior {
    self->set_default_handler(caf::drop);
    auto files = std::make_shared<ServedFiles>([this](const std::string& path) {
      return path.starts_with(dir.path().string()) ? std::optional<std::filesystem::path>(path)
                                                   : std::nullopt;
    });
    return {[files](const ListingWanted& wanted) { return files->list(wanted); },
            [files, self, this](const BlockWanted& wanted) {
              if (blocks_left-- == 0) self->quit();
              return files->read(wanted);
            }};
  });

  ~Served() { caf::anon_send_exit(server, caf::exit_reason::user_shutdown); }

  FileFetch fetch(FetchLimits limits = {}) { return {system, server, "host h1", limits}; }
  std::string path(const std::string& name) const { return (dir / name).string(); }
};

std::string all_of(FileFetch& source, const std::string& path, const ListedFile& file) {
  std::string all;
  source.fetch(path, file, [&](const FileSource::Piece& piece) {
    BOOST_TEST(piece.offset == all.size());
    all.append(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
  });
  return all;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_folder_is_listed_and_its_files_come_whole, Served) {
  std::string large(5 * kBlockBytes + 7, 'x');
  large.replace(kBlockBytes, 2 * kBlockBytes, 2 * kBlockBytes, '\0');  // blocks that are not sent
  dir.write("large", large);
  dir.write("empty", "");
  std::filesystem::create_directories(dir / "folder");
  FileFetch source = fetch();
  const auto files = source.list(dir.path().string(), true);
  BOOST_REQUIRE(files.size() == 2u);
  BOOST_TEST((files[0].name == "empty" && files[0].bytes == 0u));
  BOOST_TEST((files[1].name == "large" && files[1].bytes == large.size()));
  BOOST_TEST(files[1].sum == stages::xxh64(large));
  BOOST_TEST(all_of(source, dir.path().string(), files[0]).empty());
  BOOST_TEST((all_of(source, dir.path().string(), files[1]) == large));
  BOOST_TEST(source.list(path("large"), false).at(0).sum == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_dataset_is_two_files_and_no_others_beside_it, Served) {
  for (const char* name : {"a.bin", "a.idx", "secret"}) dir.write(name, name);
  FileFetch source = fetch();
  const auto files = source.list(path("a.bin"), false);
  BOOST_REQUIRE(files.size() == 2u);
  BOOST_TEST(all_of(source, path("a.bin"), files[1]) == "a.idx");
  expect_error(ErrorKind::data, {"host h1"},
               [&] { all_of(source, path("a.bin"), {.name = "secret", .bytes = 6}); });
}

BOOST_FIXTURE_TEST_CASE(what_is_not_offered_or_not_there_is_refused, Served) {
  FileFetch source = fetch();
  expect_error(ErrorKind::data, {"none of the run's"}, [&] { source.list("/etc/passwd", false); });
  BOOST_CHECK_THROW(source.list(path("missing"), false), stages::NotThere);
  expect_error(ErrorKind::data, {"../x"},
               [&] { all_of(source, dir.path().string(), {.name = "../x", .bytes = 1}); });
}

BOOST_FIXTURE_TEST_CASE(a_file_that_has_become_shorter_is_an_error, Served) {
  dir.write("file", std::string(3 * kBlockBytes, 'x'));
  FileFetch source = fetch();
  const ListedFile file = source.list(path("file"), false).at(0);
  std::filesystem::resize_file(dir / "file", kBlockBytes + 1);
  expect_error(ErrorKind::data, {"too early"}, [&] { all_of(source, path("file"), file); });
}

BOOST_FIXTURE_TEST_CASE(a_host_that_goes_in_the_middle_is_named, Served) {
  dir.write("file", std::string(30 * kBlockBytes, 'x'));
  FileFetch source = fetch();
  const ListedFile file = source.list(path("file"), false).at(0);
  blocks_left = 12;
  expect_error(ErrorKind::unavailable, {"host h1: the host is gone"},
               [&] { all_of(source, path("file"), file); });
}

BOOST_FIXTURE_TEST_CASE(it_ends_when_it_is_told_to, Served) {
  const caf::actor silent = system.spawn([](caf::event_based_actor* self) -> caf::behavior {
    self->set_default_handler(caf::drop);
    return {[](int) {}};
  });
  FileFetch source(system, silent, "host h1", {.why_stop = [] { return "the run ends"; }});
  expect_error(ErrorKind::retry, {"the run ends"}, [&] { source.list("/", false); });
  caf::anon_send_exit(silent, caf::exit_reason::user_shutdown);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

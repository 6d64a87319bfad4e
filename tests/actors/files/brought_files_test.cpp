#include "actors/files/brought_files.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <set>

#include "actors/files/listing.h"
#include "stages/storage/input_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(brought_files_test)

using namespace actors;

namespace fs = std::filesystem;

namespace {

/// The launcher's host as another sees it: its files lie below a folder that has another name here.
class LaunchersHost : public FileSource {
 public:
  explicit LaunchersHost(const TempDir& there) : there_(there) {}

  std::vector<ListedFile> list(const std::string& path, bool sums) override {
    auto [folder, files] = files_at(there_.path().string() + path);
    if (sums)
      for (ListedFile& file : files) file.sum = sum_of_file(folder / file.name);
    return files;
  }
  void fetch(const std::string& path, const ListedFile& file, const Use& use) override {
    ++fetched;
    const fs::path whole = there_.path().string() + path;
    std::string text =
        content_of(fs::is_directory(whole) ? whole / file.name : whole.parent_path() / file.name);
    if (damaged) text[0] ^= 1;
    if (breaks) throw Error(ErrorKind::unavailable, "the host is gone");
    use({.offset = 0, .bytes = std::as_bytes(std::span(text))});
  }

  int fetched = 0;
  bool damaged = false, breaks = false;

 private:
  const TempDir& there_;
};

struct Host {
  TempDir there, here;
  LaunchersHost launcher{there};
  const BroughtPlaces places{.host = "h1", .cache = here / "cache", .run = here / "run"};
  BroughtFiles files{places, std::chrono::milliseconds(0)};

  std::set<std::string> left() const {
    std::set<std::string> names;
    if (fs::exists(here.path()))
      for (const auto& entry : fs::recursive_directory_iterator(here.path()))
        if (entry.is_regular_file()) names.insert(entry.path().filename());
    return names;
  }
};

FilesAway away(std::vector<std::string> tokens, std::vector<std::string> folders = {},
               const std::string& run_dir = "") {
  return {
      .source = {}, .run_dir = run_dir, .tokens = std::move(tokens), .folders = std::move(folders)};
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(tokens_come_once_and_are_found_again_by_what_they_hold, Host) {
  there.write("a.tokens", "some tokens");
  files.leave_out(away({"/a.tokens"}));
  const std::string path = files.bring(launcher, "/a.tokens");
  BOOST_TEST(content_of(path) == "some tokens");
  BOOST_TEST(fs::path(path).parent_path() == places.cache);
  BOOST_TEST(files.bring(launcher, "/a.tokens") == path);
  BOOST_TEST(launcher.fetched == 1);
  // The next run's agent, though the file has another name and time now.
  there.write("b.tokens", "some tokens");
  BroughtFiles next(places);
  next.leave_out(away({"/b.tokens"}));
  BOOST_TEST(next.bring(launcher, "/b.tokens") == path);
  BOOST_TEST(launcher.fetched == 1);
}

BOOST_FIXTURE_TEST_CASE(a_cached_file_that_was_damaged_is_fetched_anew, Host) {
  there.write("a.tokens", "some tokens");
  files.leave_out(away({"/a.tokens"}));
  const std::string path = files.bring(launcher, "/a.tokens");
  here.write(fs::relative(path, here.path()), "sama tokens");
  BroughtFiles next(places);
  next.leave_out(away({"/a.tokens"}));
  BOOST_TEST(content_of(next.bring(launcher, "/a.tokens")) == "some tokens");
  BOOST_TEST(launcher.fetched == 2);
}

BOOST_FIXTURE_TEST_CASE(a_dataset_of_two_files_stays_one, Host) {
  there.write("d.bin", "tokens");
  there.write("d.idx", "index");
  files.leave_out(away({"/d"}));
  const std::string path = files.bring(launcher, "/d");
  BOOST_TEST(path.ends_with(".bin"));
  BOOST_TEST(content_of(path) == "tokens");
  BOOST_TEST(content_of(fs::path(path).replace_extension(".idx")) == "index");
}

BOOST_FIXTURE_TEST_CASE(a_copy_with_the_same_bytes_is_used_where_it_lies, Host) {
  there.write("x", "");  // the folder of the launcher's host
  const std::string own = here.write("a.tokens", "tokens");
  fs::create_directories(
      (there.path().string() + own).substr(0, there.path().string().size() + own.rfind('/')));
  there.write(own.substr(1), "tokens");
  files.leave_out(away({own}));
  BOOST_TEST(files.bring(launcher, own) == own);
  BOOST_TEST(launcher.fetched == 0);
}

BOOST_FIXTURE_TEST_CASE(what_does_not_come_as_it_was_listed_is_refused_and_leaves_nothing, Host) {
  there.write("a.tokens", "some tokens");
  files.leave_out(away({"/a.tokens"}, {"/step-6"}));
  launcher.damaged = true;
  expect_error(ErrorKind::data, {"host h1"}, [&] { files.bring(launcher, "/a.tokens"); });
  BOOST_TEST(left().empty());
  fs::create_directories(there / "step-6");
  there.write("step-6/state.json", "{}");
  launcher.breaks = true;
  expect_error(ErrorKind::unavailable, {"is gone"}, [&] { files.bring(launcher, "/step-6"); });
  BOOST_TEST(left().empty());
  launcher.damaged = launcher.breaks = false;
  BOOST_TEST(content_of(files.bring(launcher, "/a.tokens")) == "some tokens");
  BOOST_TEST(content_of(files.bring(launcher, "/step-6") + "/state.json") == "{}");
}

BOOST_FIXTURE_TEST_CASE(of_checkpoints_the_newest_stays, Host) {
  files.leave_out(away({}, {}, "/run"));
  for (const char* step : {"step-2", "step-4"}) {
    fs::create_directories(there / "run" / "checkpoints" / step);
    there.write(std::string("run/checkpoints/") + step + "/state.json", step);
  }
  const std::string first = files.bring(launcher, "/run/checkpoints/step-2");
  BOOST_TEST(fs::path(first).filename() == "step-2");
  BOOST_TEST(files.bring(launcher, "/run/checkpoints/step-2/") != "");
  const std::string second = files.bring(launcher, "/run/checkpoints/step-4");
  BOOST_TEST(content_of(second + "/state.json") == "step-4");
  BOOST_TEST(!fs::exists(first));
  const int fetched = launcher.fetched;
  BOOST_TEST(files.bring(launcher, "/run/checkpoints/step-4") == second);
  BOOST_TEST(launcher.fetched == fetched);
  // Another of the same name, as one that was computed again.
  there.write("run/checkpoints/step-4/state.json", "another one");
  BOOST_TEST(content_of(files.bring(launcher, "/run/checkpoints/step-4") + "/state.json") ==
             "another one");
}

BOOST_AUTO_TEST_CASE(what_the_host_sees_itself_is_waited_for_by_name_and_size) {
  const TempDir shared;
  shared.write("step-6", "as the launcher's host has it");
  class Same : public FileSource {
   public:
    std::vector<ListedFile> list(const std::string& path, bool) override {
      auto files = files_at(path).files;
      files.front().bytes += longer;
      return files;
    }
    void fetch(const std::string&, const ListedFile&, const Use&) override {
      BOOST_ERROR("nothing is away");
    }
    std::uint64_t longer = 0;
  } launcher;
  BroughtFiles files({.host = "h1", .cache = shared / "cache", .run = {}},
                     std::chrono::milliseconds(0));
  const std::string path = (shared / "step-6").string();
  BOOST_TEST(files.bring(launcher, path) == path);
  launcher.longer = 5;
  expect_error(ErrorKind::unavailable, {path}, [&] { files.bring(launcher, path); });
  expect_error(ErrorKind::retry, {"the agent ends"},
               [&] { files.bring(launcher, path, [] { return "the agent ends"; }); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

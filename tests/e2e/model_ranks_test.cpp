// `troupe generate` and `eval` over several ranks, each a process: that they compute the same, and
// what happens when one of them is lost or cannot go on.

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/child_processes.h"
#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(model_ranks_test)

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Json = nlohmann::json;

/// A trained checkpoint, and many prompts, with which a command has much to do.
class Place : public Workplace {
 public:
  explicit Place(const Keys& keys = {}) {
    BOOST_REQUIRE(troupe({"launch", manifest("run", keys)}).exit_code == 0);
    saved = checkpoint("run", 6);
    std::string lines;
    for (int i = 0; i < 1000; ++i) lines += "a prompt\n";
    prompts = dir.write("prompts.txt", lines);
  }

  Words words(const std::string& command, const Words& more) const {
    Words all{command, saved};
    if (command == "eval") all.insert(all.end(), {"--files", (dir / "corpus.txt").string()});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  double loss(const Words& more) const {
    Words all = words("eval", more);
    all.insert(all.end(), {"--steps", "3", "--json"});
    const Finished done = troupe(all);
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    return Json::parse(done.out).at("loss");
  }
  void refuses(const std::string& command, const Words& more, const Words& says) const {
    const Finished done = troupe(words(command, more));
    BOOST_TEST(done.exit_code == 64, done.err);
    for (const std::string& word : says)
      BOOST_TEST(done.err.find(word) != std::string::npos, "no '" << word << "' in: " << done.err);
  }

  std::string saved, prompts;
};

/// A command that is at work, and its other ranks.
struct AtWork {
  explicit AtWork(const Place& place)
      : program(place.words("generate", {"--prompt-file", place.prompts, "--tokens", "40", "--pp",
                                         "2", "--tp", "2"})) {
    BOOST_REQUIRE(program.read_until("a prompt"));  // of the first batch, of many
    ranks = children_of(program.pid());
    BOOST_REQUIRE(ranks.size() == 3u);
  }
  TroupeProgram program;
  std::vector<pid_t> ranks;
};

}  // namespace

BOOST_AUTO_TEST_CASE(stages_evaluate_with_the_bits_of_one_and_shards_nearly_so) {
  const Place place;
  for (const Words& samples : {Words{}, Words{"--documents", "packed"}}) {
    const auto loss = [&](Words more) {
      more.insert(more.end(), samples.begin(), samples.end());
      return place.loss(more);
    };
    const double whole = loss({}), shards = loss({"--tp", "2"});
    BOOST_TEST(loss({"--pp", "2"}) == whole);
    BOOST_TEST(loss({"--pp", "3"}) == whole);
    BOOST_TEST(shards == whole, boost::test_tools::tolerance(1e-6));
    BOOST_TEST(loss({"--pp", "2", "--tp", "2"}) == shards);
  }
}

BOOST_AUTO_TEST_CASE(a_killed_rank_ends_the_command_which_names_it) {
  const Place place;
  for (std::size_t victim = 0; victim < 3; ++victim) {
    AtWork run(place);
    kill(run.ranks[victim], SIGKILL);
    const Finished done = run.program.finish();
    BOOST_TEST(done.exit_code == 70, done.err);
    BOOST_TEST(done.err.find("the process of rank ") != std::string::npos, done.err);
    BOOST_TEST(done.err.find("SIGKILL") != std::string::npos, done.err);
    for (const pid_t rank : run.ranks) BOOST_TEST(!is_alive(rank));
  }
}

BOOST_AUTO_TEST_CASE(ranks_end_with_their_command) {
  const Place place;
  AtWork run(place);
  std::vector<pollfd> ends;
  for (const pid_t rank : run.ranks)
    ends.push_back(
        {.fd = static_cast<int>(syscall(SYS_pidfd_open, rank, 0)), .events = POLLIN, .revents = 0});
  kill(run.program.pid(), SIGKILL);
  for (pollfd& end : ends) {
    BOOST_REQUIRE(end.fd >= 0);
    BOOST_TEST(poll(&end, 1, -1) == 1);
    close(end.fd);
  }
}

BOOST_AUTO_TEST_CASE(a_rank_that_finds_its_part_damaged_says_so) {
  const Place place;
  // The last byte of the weights is of the head, or of a layer of the last stage; so all files are
  // damaged in their middle, which the first stage reads.
  for (const auto& entry : fs::directory_iterator(place.saved)) {
    if (!entry.path().string().ends_with(".safetensors")) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
    file.put('\x7f').put('\x3e').put('\x7f');
  }
  for (const char* command : {"generate", "eval"}) {
    Words more{"--pp", "6"};
    if (command == std::string("generate")) more.insert(more.end(), {"--prompt", "a"});
    const Finished done = troupe(place.words(command, more));
    BOOST_TEST(done.exit_code == 65, done.err);
    BOOST_TEST(done.err.find("rank ") != std::string::npos, done.err);
    BOOST_TEST(done.err.find(".safetensors") != std::string::npos, done.err);
  }
}

BOOST_AUTO_TEST_CASE(a_division_that_is_not_possible_is_refused_with_the_nearest) {
  const Place place;
  const Words text{"--prompt", "x"};
  for (const char* command : {"generate", "eval"}) {
    const auto refuses = [&](Words more, const Words& says) {
      if (command == std::string("generate")) more.insert(more.end(), text.begin(), text.end());
      place.refuses(command, more, says);
    };
    refuses({"--pp", "7"}, {"7 pipeline stages", "at most 6"});
    refuses({"--tp", "3"}, {"num_attention_heads = 4", "nearest: tp = 2"});
    refuses({"--tp", "8"}, {"nearest: tp = 4"});
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

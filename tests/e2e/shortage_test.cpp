#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <filesystem>

#include "tests/support/sentencepiece_model.h"
#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests runs on a machine that has too little of something, at the start or for a while, and whose
// files disappear.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(shortage_test)

namespace {

namespace fs = std::filesystem;

const Keys kLong{{"run.max_steps", "1000000"}, {"mesh.pp", "2"}};

/// Changes the soft limit of a process; 0: this one. Returns the limit before.
rlim_t limit(pid_t pid, __rlimit_resource resource, rlim_t soft) {
  rlimit before{};
  BOOST_REQUIRE(prlimit(pid, resource, nullptr, &before) == 0);
  const rlimit after{.rlim_cur = soft, .rlim_max = before.rlim_max};
  BOOST_REQUIRE(prlimit(pid, resource, &after, nullptr) == 0);
  return before.rlim_cur;
}

/// A command of a shell with its output and its errors in one. What this process was given open by
/// whoever started it would count towards the limits.
Finished shell(const std::string& command) {
  const std::string alone = "exec 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ";
  FILE* pipe = popen((alone + command).c_str(), "r");
  BOOST_REQUIRE(pipe);
  Finished done;
  std::array<char, 4096> piece{};
  for (std::size_t got = 0; (got = fread(piece.data(), 1, piece.size(), pipe)) > 0;)
    done.out.append(piece.data(), got);
  done.exit_code = WEXITSTATUS(pclose(pipe));
  return done;
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they take terabytes
BOOST_AUTO_TEST_CASE(a_launcher_that_gets_no_threads_names_the_limit_and_writes_nothing) {
  const Workplace place;
  const std::string manifest = place.manifest("run", kLong);
  for (const auto& [resource, mebibytes, named] :
       {std::tuple{RLIMIT_AS, 150, "ulimit -v allows a process 153600 KiB of addresses"},
        std::tuple{RLIMIT_DATA, 64, "ulimit -d allows a process 65536 KiB of data"}}) {
    const rlim_t before = limit(0, resource, static_cast<rlim_t>(mebibytes) << 20);
    TroupeProgram run({"launch", manifest});
    limit(0, resource, before);
    const Finished done = run.finish();
    BOOST_TEST(done.exit_code == 69, done.err);
    BOOST_TEST(done.err.find("memory") != std::string::npos, done.err);
    BOOST_TEST(done.err.find(named) != std::string::npos, done.err);
    BOOST_TEST(!fs::exists(place.run("run")));
  }
}
#endif

/// However few there are: some libraries end the program without a word, others in words of theirs.
BOOST_AUTO_TEST_CASE(a_launcher_that_gets_too_few_descriptors_names_the_limit_and_writes_nothing) {
  const Workplace place;
  const std::string launch = " launch " + place.manifest("run", kLong);
  for (int descriptors = 5; descriptors < 48; ++descriptors) {
    const Finished done =
        shell("ulimit -n " + std::to_string(descriptors) + "; exec \"$TROUPE_BINARY\"" + launch);
    BOOST_TEST(done.exit_code == 69, descriptors << ": " << done.out);
    BOOST_TEST(
        done.out.find("needs 48 descriptors beside those it has, and gets ") != std::string::npos,
        descriptors << ": " << done.out);
  }
  BOOST_TEST(!fs::exists(place.run("run")));
  // Those of its workers are counted once their number is known.
  const Finished done =
      shell("ulimit -n 100; exec \"$TROUPE_BINARY\"" + launch + " --set recovery.spares=30");
  BOOST_TEST(done.out.find("needs 176 descriptors") != std::string::npos, done.out);
  BOOST_TEST(done.out.find("ulimit -n 1024 is enough") != std::string::npos, done.out);
  BOOST_TEST(!fs::exists(place.run("run")));
}

BOOST_AUTO_TEST_CASE(a_launcher_raises_its_own_limit_of_descriptors) {
  const Workplace place;
  const std::string manifest = place.manifest("run", {{"mesh.pp", "2"}});
  const Finished done = shell("ulimit -S -n 16; exec \"$TROUPE_BINARY\" launch " + manifest);
  BOOST_TEST(done.exit_code == 0, done.out);
}

BOOST_AUTO_TEST_CASE(a_worker_that_cannot_be_started_for_a_while_is_started_later) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", kLong)});
  BOOST_REQUIRE(run.read_until("step 5/"));
  const auto workers = workers_of(place.run("run"));
  BOOST_REQUIRE(workers.size() == 2u);
  const rlim_t before = limit(run.pid(), RLIMIT_NOFILE, 3);
  kill(workers[0], SIGKILL);
  BOOST_REQUIRE(run.read_until("a failed start: "));
  BOOST_REQUIRE(run.read_until("tried again in 2 s"));
  limit(run.pid(), RLIMIT_NOFILE, before);
  BOOST_REQUIRE(run.read_until("from memory"));
  run.signal(SIGTERM);
  const Finished done = run.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
  const int last = step_numbers(place.run("run")).rbegin()->first;
  BOOST_TEST(fs::exists(place.checkpoint("run", last) + "/state.json"));
}

/// Tokens are still trained on, and checkpoints have the tokenizer.
BOOST_AUTO_TEST_CASE(token_files_and_a_tokenizer_that_are_removed_do_not_matter) {
  const Workplace place;
  const std::string data = (place.dir / "data").string();
  const std::string tokenizer = place.dir.write("tok.model", sentencepiece_model(0, true));
  const std::string model = content_of(tokenizer);
  BOOST_REQUIRE(troupe({"tokenize", (place.dir / "corpus.txt").string(), "--tokenizer", tokenizer,
                        "-o", data})
                    .exit_code == 0);
  Keys keys = kLong;
  keys["data.files"] = "[\"" + data + ".bin\"]";
  keys["data.tokenizer"] = '"' + tokenizer + '"';
  keys["model.vocab_size"] = "400";
  TroupeProgram run({"launch", place.manifest("run", keys)});
  BOOST_REQUIRE(run.read_until("step 3/"));
  for (const std::string& gone : {data + ".bin", data + ".idx", tokenizer})
    BOOST_REQUIRE(fs::remove(gone));
  kill(workers_of(place.run("run")).at(0), SIGKILL);
  BOOST_REQUIRE(run.read_until("recovered at step "));
  const Finished scaled = troupe({"scale", place.run("run"), "--pp", "3"});
  BOOST_TEST(scaled.exit_code == 0, scaled.err);
  run.signal(SIGTERM);
  const Finished done = run.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
  BOOST_TEST(!fs::exists(place.run("run") + "/tokens"));
  const int last = step_numbers(place.run("run")).rbegin()->first;
  BOOST_TEST(content_of(place.checkpoint("run", last) + "/tokenizer.model") == model);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

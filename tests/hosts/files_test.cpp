#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "tests/hosts/hosts_runs.h"

// Runs on hosts that do not share the run's directory, nor the cache of token files.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(files_test)

namespace {

namespace fs = std::filesystem;

/// Hosts of which all but the first have empty folders of their own for runs and caches. What they
/// have in common is the program and the manifests.
struct Apart {
  explicit Apart(int hosts) : lab(hosts) {
    lab.start_ssh();
    for (const char* folder : {"runs", "cache"}) {
      fs::create_directories(place.dir / folder);
      for (int host = 1; host < hosts; ++host)
        lab.make_private(host, (place.dir / folder).string());
    }
  }
  std::string manifest(const std::string& name, Keys keys) const {
    keys["cluster.forward_env"] = R"(["XDG_CACHE_HOME"])";
    return place.manifest(name, on_hosts(std::move(keys)));
  }
  std::vector<std::string> with_cache(std::vector<std::string> words) const {
    words.insert(words.begin(), {"env", "XDG_CACHE_HOME=" + (place.dir / "cache").string()});
    return words;
  }
  std::vector<std::string> launching(const std::string& name, const Keys& keys,
                                     const std::string& hosts) const {
    return with_cache(launch_on_hosts(place, manifest(name, keys), hosts));
  }
  Finished launch(const std::string& name, const Keys& keys, const std::string& hosts) const {
    return lab.run(0, launching(name, keys, hosts));
  }
  Finished on(int host, const std::string& command) const {
    return lab.run(host, {"sh", "-c", "cd " + place.dir.path().string() + " && " + command});
  }

  const Workplace place;
  Lab lab;
};

const Keys kGathers{{"mesh.pp", "2"}, {"checkpoint.gather", "true"}, {"checkpoint.interval", "3"}};

/// A folder's files, by name.
std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename()] = content_of(entry.path());
  return files;
}

/// Of a model whose parts, of some ten megabytes, take seconds over a slow link.
Keys larger() {
  Keys keys = kGathers;
  keys["run.max_steps"] = "100000";
  keys["model.hidden_size"] = "256";
  keys["model.intermediate_size"] = "512";
  keys["checkpoint.interval"] = "0";
  return keys;
}

/// Until the first part of another host is on the way into the run's directory.
void wait_for_parts(const std::string& run_dir) {
  while (true)  // the test's timeout bounds it
    for (const auto& step : fs::directory_iterator(run_dir + "/checkpoints"))
      if (fs::exists(step.path() / "model-00002-of-00002.safetensors")) return;
}

bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_directory_that_is_not_shared_is_refused_before_anything_begins) {
  const Apart hosts(2);
  const Finished run = hosts.launch("run", {{"mesh.pp", "2"}}, "h0:1\nh1:1\n");
  BOOST_TEST(run.exit_code == 69);
  for (const std::string& word : {std::string("h1"), (hosts.place.dir / "runs").string(),
                                  std::string("checkpoint.gather = true")})
    BOOST_TEST(says(run.err, word), run.err);
  BOOST_TEST(!fs::exists(hosts.place.run("run")));
  BOOST_TEST((programs_on(hosts.lab, 0).empty() && programs_on(hosts.lab, 1).empty()));
}

// Nothing but the secret is the same on both.
BOOST_AUTO_TEST_CASE(processes_of_a_job_meet_at_its_master_and_have_no_directory_in_common) {
  const Apart hosts(2);
  const std::string token = hosts.place.dir.write("token", "s3cret\n");
  fs::permissions(token, fs::perms::owner_read);
  const std::string manifest = hosts.manifest("run", kGathers);
  const auto words = [&](int rank) {
    return hosts.with_cache({"env", "MASTER_ADDR=h0", "MASTER_PORT=29500",
                             "OMPI_COMM_WORLD_RANK=" + std::to_string(rank),
                             "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=0",
                             "OMPI_COMM_WORLD_LOCAL_SIZE=1", binary_on_hosts(), "launch", manifest,
                             "--token-file", token});
  };
  HostProgram second(hosts.lab, 1, words(1));
  const Finished first = hosts.lab.run(0, words(0));
  BOOST_REQUIRE_MESSAGE(first.exit_code == 0, first.err);
  BOOST_TEST(second.finish().exit_code == 0);
  BOOST_TEST((step_numbers(hosts.place.run("run")) == alone(hosts.place, "alone", {})));
}

BOOST_AUTO_TEST_CASE(gathered_checkpoints_are_byte_for_byte_those_of_a_shared_directory) {
  // Two hosts write into each file: replicas their slices, shards their columns.
  Keys keys{{"mesh.dp", "2"},
            {"mesh.tp", "2"},
            {"data_parallel.sharding", "\"optim_grads_params\""},
            {"checkpoint.interval", "3"}};
  const std::string two = "h0:2\nh1:2\n";
  Apart hosts(2);
  {
    Lab shared(2);
    shared.start_ssh();
    const Finished run = shared.run(
        0, launch_on_hosts(hosts.place, hosts.place.manifest("shared", on_hosts(keys)), two));
    BOOST_REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  }
  keys["checkpoint.gather"] = "true";
  const Finished run = hosts.launch("apart", keys, two);
  BOOST_REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  BOOST_TEST(says(run.out, "h1 does not see " + hosts.place.run("apart")), run.out);
  BOOST_TEST((step_numbers(hosts.place.run("apart")) == step_numbers(hosts.place.run("shared"))));
  for (const int step : {3, 6})
    BOOST_TEST((files_in(hosts.place.checkpoint("apart", step)) ==
                files_in(hosts.place.checkpoint("shared", step))));
  // Of parts and what was fetched nothing is left, and logs are.
  const Finished left = hosts.on(1, "find cache runs -name '*.safetensors' -o -name state.json");
  BOOST_TEST(left.out.empty(), left.out);
  BOOST_TEST(hosts.on(1, "grep -l worker cache/troupe/runs/*/logs/*/output").exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_gathered_checkpoint_resumes_on_one_host_and_on_several) {
  const Apart hosts(2);
  const std::string two = "h0:1\nh1:1\n", run = hosts.place.run("run");
  const Finished first = hosts.launch("run", kGathers, two);
  BOOST_REQUIRE_MESSAGE(first.exit_code == 0, first.err);
  const auto resume = [&](int steps, const std::vector<std::string>& more) {
    std::vector<std::string> words{binary_on_hosts(), "launch",
                                   "--resume",        run,
                                   "--set",           "run.max_steps=" + std::to_string(steps)};
    words.insert(words.end(), more.begin(), more.end());
    const Finished done = hosts.lab.run(0, hosts.with_cache(words));
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  };
  resume(9, {"--hostfile", hosts.place.dir.write("two", two)});
  resume(12, {});
  BOOST_TEST((step_numbers(run) == alone(hosts.place, "alone", {{"run.max_steps", "12"}})));
}

BOOST_AUTO_TEST_CASE(what_a_worker_said_last_is_in_the_runs_directory) {
  const Apart hosts(2);
  Keys keys = kGathers;
  keys["run.max_steps"] = "100000";
  HostProgram run(hosts.lab, 0, hosts.launching("run", keys, "h0:1\nh1:1\n"));
  BOOST_REQUIRE(run.read_until("step 5/"));
  const fs::path log = hosts.place.run("run") + "/logs/rank-1/output";
  BOOST_TEST(!fs::exists(log));
  const pid_t worker = worker_on(hosts.lab, 1);
  BOOST_REQUIRE(worker > 0);
  kill(worker, SIGKILL);
  wait_for_event(hosts.place.run("run"), "recovered");
  BOOST_TEST(says(content_of(log), "worker 1 starts"), content_of(log));
  BOOST_TEST(hosts.lab.run(0, {binary_on_hosts(), "stop", hosts.place.run("run")}).exit_code == 0);
  BOOST_TEST(run.finish().exit_code == 0);
  BOOST_TEST(says(content_of(log), "ends: "), content_of(log));
}

BOOST_AUTO_TEST_CASE(a_disk_that_is_full_costs_a_checkpoint_and_not_the_run) {
  const Apart hosts(2);
  Keys keys = kGathers;
  keys["run.max_steps"] = "100000";
  keys["checkpoint.interval"] = "0";
  HostProgram run(hosts.lab, 0, hosts.launching("run", keys, "h0:1\nh1:1\n"));
  BOOST_REQUIRE(run.read_until("step 5/"));
  const auto save = [&] {
    return hosts.lab.run(0, {binary_on_hosts(), "checkpoint", hosts.place.run("run")});
  };
  const auto give_room = [&](const std::string& size) {
    const Finished done = hosts.on(1, "mount -o remount,size=" + size + " $PWD/cache");
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  };
  give_room("$(($(df --output=used $PWD/cache | tail -1) + 64))k");
  const Finished full = save();
  BOOST_TEST(full.exit_code == 70, full.err);
  BOOST_TEST(says(full.err, "host h1: "), full.err);
  BOOST_TEST(says(full.err, "No space left on device"), full.err);
  give_room("1g");
  const Finished saved = save();
  BOOST_TEST(saved.exit_code == 0, saved.err);
  BOOST_TEST(hosts.lab.run(0, {binary_on_hosts(), "stop", hosts.place.run("run")}).exit_code == 0);
  BOOST_TEST(run.finish().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(steps_do_not_wait_for_parts_that_come_slowly) {
  Apart hosts(2);
  Keys keys = larger();
  keys["recovery.neighbour_copies"] = "false";  // which each step waits for
  HostProgram run(hosts.lab, 0, hosts.launching("run", keys, "h0:1\nh1:1\n"));
  BOOST_REQUIRE(run.read_until("step 3/"));
  hosts.lab.rate(1, 20);
  const std::string dir = hosts.place.run("run");
  HostProgram order(hosts.lab, 0, {binary_on_hosts(), "checkpoint", dir});
  wait_for_parts(dir);
  read_new_steps(run, dir, 3);
  BOOST_TEST(num_events(dir, "checkpoint") == 0u);
  hosts.lab.rate(1, 0);
  BOOST_TEST(order.finish().exit_code == 0);
  BOOST_TEST(hosts.lab.run(0, {binary_on_hosts(), "stop", dir}).exit_code == 0);
  BOOST_TEST(run.finish().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_host_that_is_lost_while_its_parts_come_costs_that_checkpoint_alone) {
  Apart hosts(3);
  Keys keys = larger();
  keys["recovery.spare_hosts"] = "1";
  HostProgram run(hosts.lab, 0, hosts.launching("run", keys, "h0:1\nh1:1\nh2:1\n"));
  BOOST_REQUIRE(run.read_until("step 3/"));
  hosts.lab.rate(1, 20);
  const std::string dir = hosts.place.run("run");
  HostProgram order(hosts.lab, 0, {binary_on_hosts(), "checkpoint", dir});
  wait_for_parts(dir);
  hosts.lab.poweroff(1);
  const Finished lost = order.finish();
  BOOST_TEST(lost.exit_code == 70, lost.err);
  BOOST_TEST(says(lost.err, "host h1"), lost.err);
  wait_for_event(dir, "recovered", {{"from", "memory"}});
  const Finished saved = hosts.lab.run(0, {binary_on_hosts(), "checkpoint", dir});
  BOOST_TEST(saved.exit_code == 0, saved.err);
  BOOST_TEST(hosts.lab.run(0, {binary_on_hosts(), "stop", dir}).exit_code == 0);
  BOOST_TEST(run.finish().exit_code == 0);
  for (const auto& entry : fs::directory_iterator(dir + "/checkpoints"))
    BOOST_TEST(entry.path().extension() != ".tmp");
}

BOOST_AUTO_TEST_CASE(a_host_that_joins_later_is_brought_what_it_lacks) {
  Apart hosts(3);
  Keys keys = kGathers;
  keys["run.max_steps"] = "100000";
  keys["cluster.wait"] = "60";
  keys["checkpoint.interval"] = "0";
  const std::string token = hosts.place.dir.write("token", "s3cret\n");
  fs::permissions(token, fs::perms::owner_read);
  const std::vector<std::string> where{"--rendezvous", "h0:29600", "--token-file", token};
  const auto words = [&](std::vector<std::string> command) {
    command.insert(command.begin(), binary_on_hosts());
    command.insert(command.end(), where.begin(), where.end());
    return hosts.with_cache(command);
  };
  HostProgram run(hosts.lab, 0,
                  words({"launch", hosts.place.manifest("run", keys), "--wait-for-hosts", "2"}));
  HostProgram second(hosts.lab, 1, words({"join"}));
  const std::string dir = hosts.place.run("run");
  BOOST_REQUIRE(run.read_until("step 5/"));
  HostProgram third(hosts.lab, 2, words({"join"}));
  wait_for_event(dir, "host", {{"host", "h2"}, {"state", "spare"}});
  hosts.lab.cut(1);
  wait_for_event(dir, "recovered", {{"from", "memory"}});
  const Finished saved = hosts.lab.run(0, {binary_on_hosts(), "checkpoint", dir});
  BOOST_TEST(saved.exit_code == 0, saved.err);
  BOOST_TEST(hosts.lab.run(0, {binary_on_hosts(), "stop", dir}).exit_code == 0);
  BOOST_TEST(run.finish().exit_code == 0);
  BOOST_TEST(third.finish().exit_code == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

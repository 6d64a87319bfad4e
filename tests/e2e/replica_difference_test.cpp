#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/process_memory.h"
#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests that a run notices replicas whose weights differ. Some memory of a live worker is
// overwritten, as a broken machine might. With a learning rate of zero the weights stay those of
// the checkpoint of step 0, so that they can be found. No worker is replaced, because a replica's
// replacement has the weights of another one.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(replica_difference_test)

namespace {

namespace fs = std::filesystem;

const Keys kFrozen{{"mesh.dp", "3"},
                   {"batch.global", "24"},
                   {"recovery.neighbour_copies", "false"},
                   {"recovery.on_failure", "\"stop\""},
                   {"recovery.silent", "0"},
                   {"recovery.hang", "0"},
                   {"optimizer.lr", "0.0"},
                   {"optimizer.warmup_steps", "0"},
                   {"checkpoint.initial", "true"},
                   {"run.max_steps", "1000000"}};
const std::string kDamaged = "model.layers.2.mlp.up_proj.weight";

/// The first row of a weight in a checkpoint of one file.
std::string first_row(const fs::path& checkpoint, const std::string& name) {
  std::ifstream file(checkpoint / "model-00001-of-00001.safetensors", std::ios::binary);
  std::uint64_t size = 0;
  file.read(reinterpret_cast<char*>(&size), sizeof size);
  std::string header(size, '\0');
  file.read(header.data(), static_cast<std::streamsize>(size));
  const auto entry = nlohmann::json::parse(header).at(name);
  std::string row(entry.at("shape").at(1).get<std::size_t>() * sizeof(float), '\0');
  file.seekg(static_cast<std::streamoff>(sizeof size + size +
                                         entry.at("data_offsets").at(0).get<std::uint64_t>()));
  file.read(row.data(), static_cast<std::streamsize>(row.size()));
  return row;
}

/// A change in which every worker keeps its place.
std::vector<std::string> order_of_new_configuration(const Workplace& place) {
  return {"scale", place.run("run"), "--schedule", "gpipe"};
}

/// Starts a run of replicas of which these then have another weight than the others.
std::unique_ptr<TroupeProgram> damaged(const Workplace& place, const Keys& keys,
                                       const std::vector<std::size_t>& replicas = {1}) {
  auto program = std::make_unique<TroupeProgram>(
      std::vector<std::string>{"launch", place.manifest("run", keys)});
  while (!fs::exists(place.checkpoint("run", 0))) BOOST_REQUIRE(!program->read_line().empty());
  const std::string row = first_row(place.checkpoint("run", 0), kDamaged);
  std::string other = row;
  other[2] ^= 1;
  const auto workers = workers_of(place.run("run"));
  // An update that has read the weight may write it back, and another replica of the instance may
  // send it once more, so that it is overwritten until it stays.
  int times = 0;
  for (int found = -1; found != 0; times += found) {
    found = 0;
    for (const std::size_t replica : replicas) found += overwrite(workers.at(replica), row, other);
  }
  BOOST_REQUIRE(times > 0);
  return program;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_ends_where_its_replicas_are_found_to_differ) {
  const Workplace place;
  const auto program = damaged(place, kFrozen);
  const Finished order = troupe(order_of_new_configuration(place));
  BOOST_REQUIRE_MESSAGE(order.exit_code == 69, order.out + order.err);  // else the run goes on
  const Finished done = program->finish();
  BOOST_TEST(done.exit_code == 70);
  BOOST_TEST(done.err.find("had other weights than replica ") != std::string::npos, done.err);
  BOOST_TEST(done.err.find(": 1 parameter, " + kDamaged) != std::string::npos, done.err);
  BOOST_TEST(done.err.find("on_difference = \"repair\"") != std::string::npos, done.err);
}

// Each instance divides the moments, so that one of its two replicas owns the weight.
BOOST_AUTO_TEST_CASE(instances_that_divide_state_are_compared) {
  const Workplace place;
  Keys keys = kFrozen;
  keys["mesh.dp"] = "4";
  keys["data_parallel.sharding"] = "\"optim\"";
  keys["data_parallel.num_optimizer_instances"] = "2";
  const auto program = damaged(place, keys, {2, 3});
  const Finished order = troupe(order_of_new_configuration(place));
  BOOST_REQUIRE_MESSAGE(order.exit_code == 69, order.out + order.err);  // else the run goes on
  const Finished done = program->finish();
  BOOST_TEST(done.exit_code == 70);
  BOOST_TEST(done.err.find("had other weights than replica ") != std::string::npos, done.err);
  BOOST_TEST(done.err.find(kDamaged) != std::string::npos, done.err);
}

BOOST_AUTO_TEST_CASE(on_order_a_replica_gets_the_weights_that_most_have) {
  const Workplace place;
  Keys keys = kFrozen;
  keys["data_parallel.on_difference"] = "\"repair\"";
  const auto program = damaged(place, keys);
  BOOST_TEST(troupe(order_of_new_configuration(place)).exit_code == 0);
  BOOST_TEST(program->read_until("it has been given those weights"));
  BOOST_TEST(program->shown().find(kDamaged) != std::string::npos, program->shown());
  // Nothing is left to find.
  BOOST_TEST(troupe({"scale", place.run("run"), "--dp", "2"}).exit_code == 0);
  BOOST_TEST(troupe({"stop", place.run("run")}).exit_code == 0);
  BOOST_TEST(program->finish().exit_code == 0);
  const auto last = step_numbers(place.run("run")).rbegin()->first;
  BOOST_TEST(first_row(place.checkpoint("run", last), kDamaged) ==
             first_row(place.checkpoint("run", 0), kDamaged));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

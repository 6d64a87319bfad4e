// Measures what an action costs beyond its computation: the interpreter, the inbox and the data
// feed.
//
//   action_overhead STEPS
//
// Runs whole steps of a rank whose stage computes nothing. All chunks of an interleaved plan are on
// this rank, so every message passes the real channel but travels nowhere. Prints one JSON line
// {"us_per_action"}, the median over steps.

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "actors/worker/step/plan_runner.h"
#include "stages/corpus/token_data.h"
#include "tensor/errors/error.h"
#include "tests/bench/timing.h"
#include "tests/support/null_stage.h"
#include "tests/support/temp_dir.h"
#include "transport/node/ucx_node.h"

namespace troupe::bench {
namespace {

actors::RunSpec one_rank_with_many_chunks() {
  actors::RunSpec spec;
  spec.model.num_hidden_layers = 8;
  spec.model.hidden_size = 64;
  spec.batch = {.seq_len = 16, .micro = 1, .global = 8};
  spec.schedule = {.kind = "interleaved", .chunks = 8, .csv = ""};
  return spec;
}

double us_per_action(int steps) {
  const actors::RunSpec spec = one_rank_with_many_chunks();
  const actors::ClusterShape shape = actors::first_shape(spec);
  const auto part = actors::part_of(actors::assemble(spec, shape), spec, shape, 0);
  const test::TempDir dir;
  const std::string text = dir.write("text.txt", std::string(10'000, 'x'));
  const std::string tokens_file = stages::prepare_tokens({.files = {text}}, dir / "cache");
  const stages::DataFeed feed(stages::TokenFile::open(tokens_file),
                              {.seq_len = spec.batch.seq_len,
                               .micro = spec.batch.micro,
                               .global = spec.batch.global,
                               .vocab_size = spec.model.vocab_size});
  const std::int64_t tokens = spec.batch.micro * spec.batch.seq_len;
  test::NullStage stage(spec.schedule.chunks, {tokens, spec.model.hidden_size});
  const auto node = transport::UcxNode::create({.environment = transport::prepare_ucx()});
  node->channel().open({.run = 1, .configuration = 1, .rank = 0, .edges = part.edges});
  actors::PlanRunner runner(
      stage, node->channel(), stage.device(), actors::compile(part, part.actions),
      {.feed = &feed, .rows = {.capacity = tokens}, .num_microbatches = spec.num_microbatches()});
  std::vector<double> samples;
  for (int step = 0; step <= steps; ++step) {
    const auto result = runner.train(step, static_cast<std::uint64_t>(step));
    if (step > 0) samples.push_back(result.wall_s);  // the first step warms up
  }
  return median(samples) * 1e6 / static_cast<double>(part.actions.size());
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  try {
    if (argc != 2) {
      throw troupe::Error(troupe::ErrorKind::usage, "usage: action_overhead STEPS");
    }
    std::cout << fmt::format(R"({{"us_per_action": {}}})",
                             troupe::bench::us_per_action(std::stoi(argv[1])))
              << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "action_overhead: " << error.what() << '\n';
    return 1;
  }
}

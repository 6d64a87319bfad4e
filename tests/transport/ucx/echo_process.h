#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>

#include "tests/contract/messages.h"
#include "tests/transport/ucx/child_process.h"
#include "tests/transport/ucx/node_processes.h"
#include "transport/node/ucx_node.h"

// Edges between the test, rank 0, and its child, rank 1.

namespace troupe::test {

constexpr std::uint64_t kEndless = 1ull << 40;

/// What the child does, as the test tells it.
struct ChildJob {
  enum class Part {
    echo,   ///< sends back one gradient for each activation
    reads,  ///< receives activations
    writes  ///< sends gradients
  };

  std::uint32_t configuration = 1;
  std::int64_t elements = 0;
  std::uint64_t steps = 0;
  transport::EdgeChoice choice = transport::EdgeChoice::automatic;
  Part part = Part::echo;

  std::string text() const {
    std::ostringstream out;
    out << configuration << ' ' << elements << ' ' << steps << ' ' << static_cast<int>(choice)
        << ' ' << static_cast<int>(part);
    return out.str();
  }
  static ChildJob of(const std::string& text) {
    ChildJob job;
    int choice = 0, part = 0;
    std::istringstream(text) >> job.configuration >> job.elements >> job.steps >> choice >> part;
    job.choice = static_cast<transport::EdgeChoice>(choice);
    job.part = static_cast<Part>(part);
    return job;
  }
};

inline std::ostream& operator<<(std::ostream& out, ChildJob::Part part) {
  constexpr const char* kNames[] = {"echo", "reads", "writes"};
  return out << kNames[static_cast<int>(part)];
}

/// Opens the job's edges, both ways; of a device, if it is not null.
inline void open_job(transport::UcxNode& node, int rank, const ChildJob& job,
                     tensor::Device* device) {
  node.channel().open({.run = kRun,
                       .configuration = job.configuration,
                       .rank = rank,
                       .edges = two_way({job.elements}, 2),
                       .device = device,
                       .choice = job.choice});
}

/// In the child: does its job, then waits to be told to end.
inline void follow_job(const TestSocket& parent, tensor::Device* device = nullptr) {
  const ChildJob job = ChildJob::of(parent.receive());
  const auto node = node_of_child(parent);
  Channel& channel = node->channel();
  open_job(*node, 1, job, device);
  parent.send("open");
  for (std::uint64_t step = 0; step < job.steps; ++step) {
    if (job.part != ChildJob::Part::writes && !receive_message(channel, forth(step))) ::_exit(3);
    if (job.part != ChildJob::Part::reads) send_message(channel, back(step));
  }
  channel.flush();
  parent.send("done");
  parent.receive();
}

/// Connects a child that follows a job to `node`, both in the job's configuration.
inline void begin_job(transport::UcxNode& node, const ChildProcess& child,
                      std::uint64_t incarnation, const ChildJob& job,
                      tensor::Device* device = nullptr) {
  child.socket().send(job.text());
  introduce(node, child, incarnation);
  open_job(node, 0, job, device);
  child.socket().receive();
}

/// Starts a child, which runs this test case, and begins the job with it.
inline std::unique_ptr<ChildProcess> start_job(const std::string& test, transport::UcxNode& node,
                                               std::uint64_t incarnation, const ChildJob& job,
                                               tensor::Device* device = nullptr) {
  auto child = std::make_unique<ChildProcess>(test);
  begin_job(node, *child, incarnation, job, device);
  return child;
}

/// What the test does while the child does its part of a step. Returns whether what came is right.
inline bool do_step(Channel& channel, ChildJob::Part part, std::uint64_t step) {
  if (part != ChildJob::Part::writes) send_message(channel, forth(step));
  return part == ChildJob::Part::reads || receive_message(channel, back(step));
}
/// Does all steps of a job so.
inline bool do_steps(Channel& channel, const ChildJob& job) {
  bool ok = true;
  for (std::uint64_t step = 0; step < job.steps; ++step)
    ok = do_step(channel, job.part, step) && ok;
  return ok;
}

}  // namespace troupe::test

// Measures the time of the control plane when nothing is computed.
//
//   control_plane REPLICAS STAGES STEPS DEATHS
//
// The real director with its replica actors and the real stage actors, around stages that answer at
// once (tests/support/null_run.h), in one process. Prints one JSON line {"start_s", "step_s",
// "director_step_s", "director_step_messages", "death_s"}: seconds until the first step is
// committed, seconds of a step, seconds of processor time in the director per step, messages to the
// director per step, and a list of the seconds from each death to the first step after it.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <time.h>

#include <atomic>
#include <caf/actor_system.hpp>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "actors/director/director.h"
#include "tensor/errors/error.h"
#include "tests/support/null_run.h"

namespace troupe::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::int64_t thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

/// What the director has done since it was made.
struct DirectorWork {
  std::atomic<std::int64_t> busy_ns{0};  ///< processor time of all its handlers
  std::atomic<std::int64_t> messages{0};
};

/// A director that counts its work.
class TimedDirector : public actors::Director {
 public:
  TimedDirector(caf::actor_config& config, actors::DirectorContext context, DirectorWork& work)
      : Director(config, std::move(context)), work_(work) {}
  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit* unit) override {
    ++work_.messages;
    Director::enqueue(std::move(message), unit);
  }
  resume_result resume(caf::execution_unit* unit, std::size_t max_throughput) override {
    const std::int64_t begin = thread_cpu_ns();
    const auto result = Director::resume(unit, max_throughput);
    work_.busy_ns += thread_cpu_ns() - begin;
    return result;
  }

 private:
  DirectorWork& work_;
};

actors::RunSpec null_run(int replicas, int stages) {
  actors::RunSpec spec;
  spec.max_steps = std::numeric_limits<std::int32_t>::max();
  spec.optimizer.max_steps = spec.max_steps;
  spec.model = {.hidden_size = 16,
                .intermediate_size = 16,
                .num_hidden_layers = stages,
                .num_attention_heads = 1,
                .num_key_value_heads = 1,
                .head_dim = 16,
                .vocab_size = 16};
  spec.batch = {.seq_len = 1, .micro = 1, .global = 8 * replicas};
  spec.mesh = {.pp = stages, .dp = replicas};
  spec.recovery.restarts_per_hour = std::numeric_limits<int>::max();
  spec.recovery.silent_s = 0;  // with so many actors on a few cores a late one is not dead
  return spec;
}

/// A run of null workers whose director's work is counted.
class MeasuredRun {
 public:
  MeasuredRun(int replicas, int stages)
      : run_(null_run(replicas, stages),
             [this](caf::actor_system& system, const actors::DirectorContext& context) {
               return system.spawn<TimedDirector>(context, std::ref(director_work_));
             }) {}

  /// Seconds until the first step is committed.
  double start() {
    const auto begin = Clock::now();
    run_.start();
    run_.wait_for(1);
    return seconds_since(begin);
  }
  struct StepCost {
    double wall_s = 0;
    double director_s = 0;
    double director_messages = 0;
  };
  /// Measures the steps 2 to count + 1.
  StepCost measure_steps(int count) {
    const auto begin = Clock::now();
    const std::int64_t busy_ns = director_work_.busy_ns, messages = director_work_.messages;
    run_.wait_for(count + 1);
    const auto per_step = [count](std::int64_t sum) { return static_cast<double>(sum) / count; };
    return {.wall_s = seconds_since(begin) / count,
            .director_s = per_step(director_work_.busy_ns - busy_ns) * 1e-9,
            .director_messages = per_step(director_work_.messages - messages)};
  }
  /// Seconds from the end of one worker to the first step without it.
  double survive_death(std::mt19937_64& rng) {
    const auto told =
        run_.hub().subscribe({.kinds = actors::mask_of<actors::Recovered, actors::RunEnded>()});
    run_.workers().kill_one(rng);
    while (true) {
      told->wait(std::chrono::seconds(1));
      for (const auto& event : told->take(1).events) {
        if (const auto* recovered = std::get_if<actors::Recovered>(&event->body))
          return recovered->stall_s;
        run_.wait_for(std::numeric_limits<std::int64_t>::max());  // it has ended: throws the reason
      }
    }
  }

 private:
  DirectorWork director_work_;
  test::NullRun run_;
};

void measure(int replicas, int stages, int steps, int deaths) {
  MeasuredRun run(replicas, stages);
  const double start_s = run.start();
  const auto step = run.measure_steps(steps);
  std::mt19937_64 rng(1);
  std::vector<double> death_s;
  for (int i = 0; i < deaths; ++i) death_s.push_back(run.survive_death(rng));
  std::cout << fmt::format(R"({{"start_s": {}, "step_s": {}, "director_step_s": {}, )"
                           R"("director_step_messages": {}, "death_s": [{}]}})",
                           start_s, step.wall_s, step.director_s, step.director_messages,
                           fmt::join(death_s, ", "))
            << std::endl;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  try {
    if (argc != 5)
      throw troupe::Error(troupe::ErrorKind::usage,
                          "usage: control_plane REPLICAS STAGES STEPS DEATHS");
    troupe::bench::measure(std::stoi(argv[1]), std::stoi(argv[2]), std::stoi(argv[3]),
                           std::stoi(argv[4]));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "control_plane: " << error.what() << '\n';
    return 1;
  }
}

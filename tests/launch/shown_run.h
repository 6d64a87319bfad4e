#pragma once

#include <cmath>

#include "launch/watch/run_now.h"

namespace troupe::test {

/// A run of so many stages and replicas after 50 of 200 steps, whose rank 1 waits for rank 0; what
/// happened is an evaluation and, of rank 1, a loss and its recovery.
inline launch::RunNow shown_run(int pp, int dp) {
  launch::RunNow run{.name = "first",
                     .doing = "training",
                     .mood = launch::RunNow::Mood::working,
                     .time = 1000,
                     .max_steps = 200,
                     .left_s = 61};
  for (int step = 1; step <= 50; ++step) {
    const launch::StepRow row{.step = step,
                              .loss = 2 + 4 / std::sqrt(step),
                              .grad_norm = 1.5,
                              .lr = 0.001,
                              .tokens = 300,
                              .step_s = 0.1,
                              .mfu = NAN};
    run.loss.add({.x = static_cast<double>(step), .y = row.loss});
    run.newest = row;
  }
  run.evaluations = {{.step = 25, .loss = 3}};
  for (int rank = 0; rank < pp * dp; ++rank)
    run.ranks.push_back({{.rank = rank,
                          .replica = rank / pp,
                          .stage = rank % pp,
                          .pid = 100 + rank,
                          .host = "here",
                          .state = "running",
                          .resident_bytes = 64 << 20},
                         {.busy_s = 3, .idle_s = 1}});
  if (run.ranks.size() > 1) {
    run.ranks[1].state = "waiting";
    run.ranks[1].waiting_for = "activation of step 51, microbatch 0 into chunk 1 from rank 0";
    run.edges = {{.from = 0, .to = 1, .bytes = 205, .wait_s = 0.025},
                 {.from = 1, .to = 0, .bytes = 102}};
  }
  run.timeline = {
      {.kind = "evaluation", .time = 10, .step = 25, .text = "loss 3.0000"},
      {.kind = "failure", .time = 20, .step = 30, .rank = 1, .text = "rank 1 was killed"},
      {.kind = "recovered",
       .time = 21,
       .step = 31,
       .rank = 1,
       .text = "rank 1 was killed",
       .phases = {{.name = "spawn", .seconds = 0.5}},
       .stall_s = 0.5}};
  run.routine = {{.kind = "director", .time = 30, .step = 50, .text = "3 messages wait"}};
  return run;
}

/// shown_run() on two hosts, a stage on each, of which the second was lost once, and a third is.
inline launch::RunNow shown_run_on_hosts() {
  launch::RunNow run = shown_run(2, 1);
  run.history.hosts = {
      {.host = "h0", .state = "joined"},
      {.host = "h1", .state = "joined", .losses = 1},
      {.host = "h2", .state = "lost", .cause = "nothing heard for 3 s", .losses = 1}};
  for (launch::RankNow& rank : run.ranks) {
    rank.host = rank.stage == 0 ? "h0" : "h1";
    rank.times.host_bytes = 1 << 20;
    rank.times.network_bytes = 205;
  }
  return run;
}

}  // namespace troupe::test

#include "launch/host/console.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "actors/topology/memory_plan.h"
#include "schedules/counted.h"
#include "tensor/error.h"

namespace troupe::launch {
namespace {

using schedules::counted;

/// Which part of the model is where.
std::string place_rows(const Placement& placement) {
  std::string rows = fmt::format("{:>6}{:>9}{:>7}{:>16}  {}\n", "rank", "replica", "stage",
                                 "parameters", "layers");
  for (const RankPlacement& r : placement.ranks)
    rows += fmt::format("{:>6}{:>9}{:>7}{:>16}  {}\n", r.rank, r.replica, r.stage,
                        grouped(r.parameters), r.layers.empty() ? "none" : ranges_text(r.layers));
  return rows;
}

std::string memory_rows(const Placement& placement) {
  constexpr auto kRow = "{:>6}{:>11}{:>11}{:>11}{:>12}{:>11}{:>11}{:>11}{:>11}\n";
  std::string rows = fmt::format(kRow, "rank", "weights", "gradients", "optimizer", "activations",
                                 "packed", "pools", "process", "total");
  for (const RankPlacement& r : placement.ranks)
    rows += fmt::format(kRow, r.rank, bytes_text(r.memory.weights), bytes_text(r.memory.gradients),
                        bytes_text(r.memory.optimizer), bytes_text(r.memory.activations),
                        bytes_text(r.memory.packed), bytes_text(r.pools),
                        bytes_text(actors::kProcessBytes), bytes_text(r.total_bytes));
  return rows;
}

}  // namespace

std::string summary(const actors::RunSpec& spec, const Placement& placement) {
  const auto& model = spec.model;
  std::string out;
  out += fmt::format("run       {} in {}\n", spec.name, spec.dir);
  out += fmt::format("model     {} parameters, {} of width {}, {}\n", grouped(placement.parameters),
                     counted(model.num_hidden_layers, "layer"), model.hidden_size,
                     tensor::name_of(model.dtype));
  out += fmt::format("batch     {} of {}, {} {} a step; {} of {}{}\n",
                     counted(spec.batch.global, "sample"), counted(spec.batch.seq_len, "token"),
                     grouped(spec.global_tokens()), spec.global_tokens() == 1 ? "token" : "tokens",
                     counted(spec.num_microbatches(), "microbatch"), spec.batch.micro,
                     spec.mesh.dp > 1 ? " a replica" : "");
  out += fmt::format("mesh      pp {} x dp {} = {} of {}{}\n", spec.mesh.pp, spec.mesh.dp,
                     counted(spec.num_ranks(), "rank"), counted(spec.cluster.threads, "thread"),
                     spec.cluster.pin ? ", pinned" : "");
  out +=
      fmt::format("schedule  {}, {}, bubble {:.1f} % if F, I and W cost the same, plan {:016x}\n",
                  spec.schedule.kind, counted(placement.plan.num_chunks(), "chunk"),
                  100 * placement.simulation.bubble_rate, placement.digest);
  out += place_rows(placement);
  out += fmt::format("memory    {} in all ranks\n", bytes_text(placement.total_bytes()));
  return out + memory_rows(placement);
}

std::string corpus_line(const actors::RunSpec& spec, std::int64_t tokens) {
  const std::int64_t samples = (tokens - 1) / spec.batch.seq_len;
  const double epochs = static_cast<double>(spec.max_steps) *
                        static_cast<double>(spec.batch.global) / static_cast<double>(samples);
  return fmt::format("corpus    {} tokens, {} samples; {} steps are {:.2f} data epochs\n",
                     grouped(tokens), grouped(samples), grouped(spec.max_steps), epochs);
}

std::string step_line(const actors::StepReport& r, std::int64_t max_steps, double left_s) {
  return fmt::format("step {}/{}  loss {:.4f}  norm {:.3f}  lr {:.2e}  {} tokens/s  {} left\n",
                     r.step, max_steps, r.loss, r.grad_norm, r.lr,
                     grouped(std::llround(r.tokens_per_s())), duration_text(left_s));
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e15));
  const std::string time =
      fmt::format("{}:{:02}:{:02}", whole / 3600 % 24, whole / 60 % 60, whole % 60);
  return whole >= 86400 ? fmt::format("{}d {}", whole / 86400, time) : time;
}

void print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    throw Error(ErrorKind::data, fmt::format("cannot write the output: {}", std::strerror(errno)));
}

void show(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

bool console_failed() {
  return std::ferror(stdout) != 0;
}

void complain(const std::string& text) {
  std::fputs(("troupe: " + text + "\n").c_str(), stderr);
}

}  // namespace troupe::launch

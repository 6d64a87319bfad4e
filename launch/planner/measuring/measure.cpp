#include "launch/planner/measuring/measure.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "launch/planner/measuring/fit_device.h"
#include "launch/planner/measuring/rank_answers.h"

namespace troupe::launch {
namespace {

using nlohmann::json;
using schedules::MachineModel;

constexpr std::int64_t kShort = 128, kLong = 1024;
constexpr double kSteady = 0.10;
constexpr double kLittleBytes = 1024, kMuchBytes = 8 << 20;

MeasuredStage stage_of(const json& answer, std::int64_t seq_len) {
  return {.work = stage_work(seq_len),
          .times = {.forward = answer.at("forward"),
                    .backward = answer.at("backward"),
                    .optimizer = answer.at("optimizer"),
                    .spread = answer.at("spread")}};
}

json stage_order(std::int64_t seq_len) {
  return {{"measure", "stage"}, {"seq_len", seq_len}};
}

double passes(const StageTimes& times) {
  return times.forward + times.backward;
}

/// The mean over ranks of the passes of a stage.
double mean_passes(const std::vector<json>& answers) {
  double sum = 0;
  for (const json& answer : answers) sum += passes(stage_of(answer, kShort).times);
  return sum / static_cast<double>(answers.size());
}

/// What a collective of all ranks takes, divided as the model has it: half of a small one's time is
/// its base, the other half its steps by the quick protocol.
void set_links(MachineModel& machine, int ranks, double little_s, double much_s) {
  const double steps = 2.0 * (ranks - 1), n = ranks;
  constexpr double kQuick = 0.18;
  machine.host.base_us = little_s / 2 * 1e6;
  machine.host.hop_us = little_s / 2 / (kQuick * steps) * 1e6;
  const double latency = (machine.host.base_us + steps * machine.host.hop_us) * 1e-6;
  const double wire = std::max(much_s - latency, much_s / 10);
  machine.host.gb_per_s = 2 * kMuchBytes * (n - 1) / n / wire * 1e-9;
}

/// What a rank has that computes alone.
void measure_alone(int threads, MachineModel& machine, Measurement& out) {
  MeasuringProcesses one(1, rank_answers(1, threads));
  const json products = one.ask({{"measure", "products"}}).front();
  for (const json& row : products.at("rates"))
    machine.products.push_back({.m = row[0], .n = row[1], .k = row[2], .rate = row[3]});
  const double best = std::ranges::max(machine.products, {}, &MachineModel::ProductRate::rate).rate;
  machine.device.float32_tflops = best / 1e3;
  machine.device.bfloat16_tflops =
      machine.device.float32_tflops * products.at("bfloat16_ratio").get<double>();
  const MeasuredStage little = stage_of(one.ask(stage_order(kShort)).front(), kShort);
  const MeasuredStage much = stage_of(one.ask(stage_order(kLong)).front(), kLong);
  fit_device(machine, little, much);
  const double spread = std::max(little.times.spread, much.times.spread);
  out.lines.push_back(fmt::format("products       {:8.1f} GFLOP/s in float32 at best", best));
  out.lines.push_back(fmt::format("streams        {:8.1f} GB/s", machine.device.memory_gb_per_s));
  out.lines.push_back(fmt::format("passes         {:8.1f} ms of a small stage, spread {:.0f} %",
                                  1e3 * passes(little.times), 100 * spread));
  if (spread > kSteady)
    out.warnings.push_back(
        fmt::format("the times of a stage differ by {:.0f} %: something else runs here, and "
                    "predictions are as far off",
                    100 * spread));
}

/// What ranks on all cores have.
void measure_together(int ranks, int threads, MachineModel& machine, Measurement& out) {
  // Alternating rounds, so that the machine's speed may change meanwhile.
  double alone = 0, together = 0;
  MeasuringProcesses one(1, rank_answers(1, threads));
  MeasuringProcesses all(ranks, rank_answers(ranks, threads));
  constexpr int kAlternations = 3;
  for (int i = 0; i < kAlternations; ++i) {
    alone += mean_passes(one.ask(stage_order(kShort)));
    together += mean_passes(all.ask(stage_order(kShort)));
  }
  machine.host.busy_share = std::min(1.0, alone / together);
  const auto seconds = [&](double bytes) {
    double most = 0;
    const auto number = static_cast<std::int64_t>(bytes);
    for (const json& answer : all.ask({{"measure", "all_reduce"}, {"bytes", number}}))
      most = std::max(most, answer.at("seconds").get<double>());
    return most;
  };
  const double little = seconds(kLittleBytes), much = seconds(kMuchBytes);
  set_links(machine, ranks, little, much);
  out.lines.push_back(fmt::format("all cores      {:8.0f} % of the rates of one rank alone",
                                  100 * machine.host.busy_share));
  out.lines.push_back(fmt::format("all-reduce     {:8.1f} us of 1 KiB, {:.2f} GB/s", 1e6 * little,
                                  machine.host.gb_per_s));
}

std::string today() {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace

Measurement measure_machine(const Machine& here, int threads) {
  const int ranks = std::max(1, here.free_cores / threads);
  Measurement out{
      .machine = {
          .host = here.host, .processor = here.cpu, .date = today(), .version = TROUPE_VERSION}};
  MachineModel& machine = out.machine.model;
  machine.device = {.kind = MachineModel::Kind::cpu,
                    .units = 1,
                    .sustained = 1,
                    .memory_gb_per_s = 10,
                    .memory_share = 1,
                    .memory_gib = static_cast<double>(here.memory_bytes) / ranks / (1 << 30),
                    .kernel_us = 1,
                    .attention_forward = 0.5,
                    .attention_backward = 0.5};
  machine.host = {.devices = static_cast<double>(ranks), .gb_per_s = 1, .hop_us = 5, .base_us = 5};
  // The cores that a pass needs also copy and add what collectives exchange, so nothing hides them.
  machine.software.interference = 1;
  measure_alone(threads, machine, out);
  if (ranks > 1) measure_together(ranks, threads, machine, out);
  // Ranks of other hosts are reached as those of this one, until somebody measures a network.
  machine.network = {.gb_per_s = machine.host.gb_per_s, .share = 1, .hop_us = machine.host.hop_us};
  return out;
}

}  // namespace troupe::launch

#include "launch/planner/measuring/rank_answers.h"

#include <omp.h>

#include <chrono>
#include <memory>
#include <string>

#include "launch/planner/measuring/device_times.h"
#include "tensor/device/process_group.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

/// The seconds of an all-reduce of so many bytes, one of several that follow each other.
double all_reduce_seconds(tensor::ProcessGroup& group, std::int64_t bytes) {
  constexpr int kWarmUp = 8;
  const int rounds = bytes > (1 << 20) ? 20 : 500;
  const auto device = tensor::make_cpu_device(1);
  const auto stream = device->make_stream();
  const tensor::Buffer buffer =
      device->allocate(static_cast<std::size_t>(bytes), tensor::MemoryKind::device);
  const tensor::Tensor x =
      buffer.view(tensor::DType::f32, {bytes / static_cast<std::int64_t>(sizeof(float))});
  for (int i = 0; i < kWarmUp; ++i) group.all_reduce(*stream, x)->wait();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) group.all_reduce(*stream, x)->wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / rounds;
}

/// `group`: null if there is one rank.
json answer(const json& order, tensor::ProcessGroup* group, int threads) {
  const std::string what = order.at("measure");
  if (what == "all_reduce") return {{"seconds", all_reduce_seconds(*group, order.at("bytes"))}};
  if (what == "stage") {
    const StageTimes times = time_stage(stage_work(order.at("seq_len")), threads);
    return {{"forward", times.forward},
            {"backward", times.backward},
            {"optimizer", times.optimizer},
            {"spread", times.spread}};
  }
  json rates = json::array();
  for (const auto& [m, n, k, rate] : time_products(threads)) rates.push_back({m, n, k, rate});
  return {{"rates", rates}, {"bfloat16_ratio", bfloat16_ratio(threads)}};
}

}  // namespace

MeasuringProcesses::MakeAnswer rank_answers(int ranks, int threads) {
  return [=](int rank, transport::UcxNode& node) -> MeasuringProcesses::Answer {
    omp_set_num_threads(threads);
    std::shared_ptr<tensor::ProcessGroup> group;
    if (ranks > 1) {
      std::vector<int> all;
      for (int i = 0; i < ranks; ++i) all.push_back(i);
      node.set_spin(std::chrono::microseconds(0));  // as ranks that leave no core for polling
      group = node.make_group(1, 1, 1, "measured", all, rank);
    }
    return [=](const json& order) { return answer(order, group.get(), threads); };
  };
}

}  // namespace troupe::launch

#include "actors/worker/step/tap.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>

#include "stages/files/safetensors/safetensors.h"

namespace troupe::actors {

using transport::Direction;

Tap::Tap(const RunStep& order, const RankAssembly& part, int rank, std::string folder,
         tensor::Device& device)
    : part_(part),
      rank_(rank),
      configuration_(order.configuration),
      step_(order.step),
      folder_(std::move(folder)),
      copies_(device) {
  for (const TapRequest& request : order.taps)
    if (request.from == rank) pending_.push_back({.request = request});
}

void Tap::look(const transport::MessageKey& key, const tensor::Tensor& sent) {
  const bool backward = key.direction == Direction::backward;
  const auto edge = std::ranges::find_if(part_.edges, [&](const transport::Edge& e) {
    return e.from == rank_ && e.chunk == key.chunk && e.direction == key.direction;
  });
  if (edge == part_.edges.end()) return;
  const int microbatch = key.microbatch;
  tensor::Tensor tensor;
  std::optional<TensorSummary> summary;
  bool wanted = false, dumped = false;
  for (PendingTap& pending : pending_) {
    const TapRequest& request = pending.request;
    if (!request.names(rank_, edge->to, backward, step_, microbatch)) continue;
    if (request.samples > 0 && pending.taken >= request.samples) continue;
    if (!summary) {
      tensor = copies_.on_host(sent);
      summary = summarise(tensor);
    }
    if (request.only_not_finite && summary->not_finite == 0) continue;
    ++pending.taken;
    wanted = true;
    dumped |= request.dump;
  }
  if (!wanted) return;
  Tapped tapped{.configuration = configuration_,
                .step = step_,
                .rank = rank_,
                .body = {.to = edge->to,
                         .backward = backward,
                         .microbatch = microbatch,
                         .summary = *summary,
                         .file = "",
                         .error = ""}};
  if (dumped) dump(tensor, tapped.body);
  tapped_.push_back(std::move(tapped));
}

void Tap::dump(const tensor::Tensor& tensor, TensorTapped& tapped) const {
  const auto path = std::filesystem::path(folder_) /
                    fmt::format("step-{}-rank-{}-to-{}-{}-{}.safetensors", step_, rank_, tapped.to,
                                tapped.backward ? "backward" : "forward", tapped.microbatch);
  try {
    std::filesystem::create_directories(folder_);
    stages::write_safetensors(
        path, {{.name = tapped.backward ? "gradient" : "activation", .tensor = tensor}});
    tapped.file = path.string();
  } catch (const std::exception& e) {  // training goes on without the dump
    tapped.error = e.what();
  }
}

}  // namespace troupe::actors

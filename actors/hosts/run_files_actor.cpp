#include "actors/hosts/run_files_actor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "actors/files/listing.h"
#include "actors/files/log_tails.h"

namespace troupe::actors {
namespace {

ServedFiles::Locate within(const FilesOffer& offer) {
  std::vector<std::string> inputs;
  for (const auto* list : {&offer.tokens, &offer.folders})
    for (const FilesOffer::Input& input : *list) inputs.push_back(input.path);
  return [inputs, checkpoints = std::filesystem::path(offer.run_dir) / "checkpoints"](
             const std::string& path) -> std::optional<std::filesystem::path> {
    if (std::ranges::find(inputs, path) != inputs.end() || is_within(path, checkpoints))
      return path;
    return std::nullopt;
  };
}

}  // namespace

RunFilesActor::RunFilesActor(caf::actor_config& config, const FilesOffer& offer,
                             OwnThreads::Token thread)
    : ControlActor(config),
      run_(offer.run_dir),
      files_(within(offer)),
      thread_(std::move(thread)) {}

caf::behavior RunFilesActor::make_behavior() {
  return {
      [this](const ListingWanted& wanted) { return files_.list(wanted); },
      [this](const BlockWanted& wanted) { return files_.read(wanted); },
      [this](const LogTail& tail) {
        try {
          add_tail(run_ / "logs", tail);
        } catch (const std::exception& error) {
          spdlog::warn("{}", error.what());
        }
      },
      [this](RunFilesEnd) { quit(); },
  };
}

void RunFilesActor::on_failure(const std::string& what) {
  spdlog::error("files for other hosts: {}", what);
}

}  // namespace troupe::actors

#include "actors/agent/parts_actor.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <optional>
#include <utility>

#include "actors/agent/run_folder.h"

namespace troupe::actors {
namespace {

/// How often it looks whether a rank has written its last collectives, as it does when a step
/// fails.
constexpr std::chrono::seconds kLookForCollectives{2};
constexpr const char* kCollectives = "collectives.jsonl";

}  // namespace

PartsActor::PartsActor(caf::actor_config& config, std::string host, std::filesystem::path run,
                       caf::actor launcher, OwnThreads::Token thread)
    : ControlActor(config),
      host_(std::move(host)),
      run_(std::move(run)),
      launcher_(std::move(launcher)),
      // An unfinished checkpoint has the same name here as in the run's directory.
      parts_([checkpoints = run_ / "checkpoints"](const std::string& path) {
        const std::string name = std::filesystem::path(path).filename();
        return name.starts_with("step-") ? std::optional(checkpoints / name) : std::nullopt;
      }),
      thread_(std::move(thread)) {}

caf::behavior PartsActor::make_behavior() {
  delayed_send(this, kLookForCollectives, Tick{});
  return {
      [this](const ListingWanted& wanted) { return parts_.list(wanted); },
      [this](const BlockWanted& wanted) { return parts_.read(wanted); },
      [this](const PartsDropped&) {
        parts_.close();
        std::error_code ignored;
        std::filesystem::remove_all(run_ / "checkpoints", ignored);
      },
      [this](const LogBegins& log) {
        logs_[log.incarnation] = log.file;
        tails_.begin(log.file);
      },
      [this](const LogEnds& end) {
        tell_log(end.exit.incarnation);
        tell_collectives();
        return end;
      },
      [this](const TailsGoTo& order) { launcher_ = order.launcher; },
      [this](Tick) {
        tell_collectives();
        delayed_send(this, kLookForCollectives, Tick{});
      },
  };
}

void PartsActor::tell_log(std::uint64_t incarnation) {
  const auto log = logs_.extract(incarnation);
  if (log.empty()) return;
  if (const auto tail = tails_.take(log.mapped(), host_)) send(launcher_, *tail);
}

void PartsActor::tell_collectives() {
  std::error_code code;
  std::filesystem::directory_iterator folder(run_ / "logs", code);
  for (const std::filesystem::directory_iterator end; !code && folder != end;
       folder.increment(code))
    if (const auto tail = tails_.take_anew(folder->path() / kCollectives)) send(launcher_, *tail);
}

void PartsActor::on_failure(const std::string& what) {
  spdlog::error("files for the launcher's host: {}", what);
}

}  // namespace troupe::actors

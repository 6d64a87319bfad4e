#include "actors/agent/bring_actor.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <utility>

#include "actors/agent/run_folder.h"
#include "actors/files/file_fetch.h"
#include "tensor/errors/error.h"

namespace troupe::actors {

caf::behavior BringActor::make_behavior() {
  return {
      [this](const FilesAway& away) { return bring_all(away); },
      [this](const FilesNeeded& needed) { return bring(needed); },
  };
}

void BringActor::on_exit() {
  source_ = nullptr;
  files_.reset();
  if (!run_.empty()) empty_run_folder(run_);
}

Brought BringActor::bring_all(const FilesAway& away) try {
  source_ = away.source;
  const std::filesystem::path cache = context_.cache();
  if (!away.run_dir.empty()) {
    run_ = run_folder(cache, context_.host, context_.launcher, away.run_dir);
    empty_run_folder(run_);  // of what an agent that was killed has left
  }
  files_.emplace(BroughtPlaces{.host = context_.host, .cache = cache, .run = run_});
  files_->leave_out(away);
  for (const auto* paths : {&away.tokens, &away.folders})
    for (const std::string& path : *paths) bring_path(path);
  return {.error = "", .run = run_};
} catch (const std::exception& error) {
  return {.error = text_of(error), .run = {}};
}

FilesHere BringActor::bring(const FilesNeeded& needed) try {
  // Before the launcher has said what is away, all is as it has it.
  return {.path = files_ ? bring_path(needed.path) : needed.path, .error = ""};
} catch (const Error& error) {
  return {.path = "", .error = error.what(), .kind = static_cast<int>(error.kind())};
} catch (const std::exception& error) {
  return {.path = "", .error = text_of(error), .kind = static_cast<int>(ErrorKind::internal)};
}

std::string BringActor::bring_path(const std::string& path) {
  const auto why_stop = [stop = context_.stop] {
    return std::string(stop.stop_requested() ? "the agent ends" : "");
  };
  FileFetch source(system(), source_, "the launcher's host", {.why_stop = why_stop});
  return files_->bring(source, path, why_stop);
}

void BringActor::on_failure(const std::string& what) {
  spdlog::error("files of the launcher's host: {}", what);
}

}  // namespace troupe::actors

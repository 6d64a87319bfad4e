#include "launch/monitors/event_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "launch/control/control_protocol.h"
#include "launch/control/event_json.h"

namespace troupe::launch {
namespace {

using namespace actors;

/// The kinds that are written. Steps and evaluations are in metrics.jsonl, which has a step that is
/// computed again only once; periodic activity is of no use later.
EventMask kept_kinds() {
  return all_events() & ~mask_of<StepCommitted, StepAgain, EvaluationDone, RankActivity,
                                 DirectorActivity, ActionsTraced, TensorTapped, ParametersSeen>();
}

}  // namespace

EventLog::EventLog(Hub& hub, const std::filesystem::path& path,
                   std::function<void(const std::string&)> print_error, stages::Claim claim)
    : path_(path),
      print_error_(std::move(print_error)),
      claim_(std::move(claim)),
      file_(std::fopen(path.c_str(), "ae")),
      thread_(hub, "events.jsonl", kept_kinds(),
              [this](const Subscription::Batch& batch) { consume(batch); }) {}

void EventLog::consume(const Subscription::Batch& batch) {
  if (!claim_.stands()) return;
  if (batch.dropped > 0) missed(batch.dropped, "the disk is too slow");
  for (const auto& event : batch.events)
    if (append(to_text(to_json(*event)) + "\n"))
      missing_ = 0;
    else
      missed(1, std::strerror(errno));
}

/// Appends a line, as a whole or not at all. Returns whether it is in the file.
bool EventLog::append(const std::string& line) {
  if (!file_) file_.reset(std::fopen(path_.c_str(), "ae"));
  if (!file_) return false;
  std::fseek(file_.get(), 0, SEEK_END);
  const long begin = std::ftell(file_.get());
  if (std::fputs(line.c_str(), file_.get()) >= 0 && std::fflush(file_.get()) == 0) return true;
  const int why = errno;
  file_.reset();  // closed first, because its buffer holds the rest of the line
  [[maybe_unused]] const int cut = truncate(path_.c_str(), begin);
  errno = why;
  return false;
}

void EventLog::missed(std::uint64_t lines, const std::string& why) {
  if (missing_ == 0)
    print_error_(fmt::format("{} misses events: {}; the run goes on", path_.string(), why));
  missing_ += lines;
}

}  // namespace troupe::launch

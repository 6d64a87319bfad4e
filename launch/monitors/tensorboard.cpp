#include "launch/monitors/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "launch/control/control_protocol.h"
#include "launch/control/event_json.h"
#include "launch/host/local_time.h"
#include "launch/host/machine.h"
#include "launch/monitors/tfrecord.h"
#include "schedules/plan/counted.h"

namespace troupe::launch {
namespace {

using namespace actors;

/// A file name in TensorBoard's form. TensorBoard sorts files by the time in their names.
std::string file_name() {
  return fmt::format("events.out.tfevents.{:010}.{}.{}", static_cast<std::int64_t>(unix_seconds()),
                     host_name(), getpid());
}

// The messages of the event file that an event becomes.

std::vector<std::string> messages_of(const RunEvent& event, const StepCommitted& step) {
  const StepReport& r = step.report;
  const auto scalar = [&](std::string_view tag, double value) {
    return scalar_event(event.time, r.step, tag, static_cast<float>(value));
  };
  std::vector<std::string> out{scalar("train/loss", r.loss), scalar("train/grad_norm", r.grad_norm),
                               scalar("train/lr", r.lr), scalar("train/step_s", r.step_s),
                               scalar("train/tokens_per_s", r.tokens_per_s())};
  if (!r.routers.empty()) out.push_back(scalar("train/aux_loss", r.aux_loss));
  for (const auto& s : r.stages())
    if (const double all = s.busy_s + s.idle_s; all > 0)
      out.push_back(
          scalar(fmt::format("pipeline/busy_share/replica_{}_stage_{}{}", s.replica, s.stage,
                             s.shard > 0 ? fmt::format("_shard_{}", s.shard) : ""),
                 s.busy_s / all));
  return out;
}
std::vector<std::string> messages_of(const RunEvent& event, const EvaluationDone& evaluation) {
  const auto scalar = [&](std::string_view tag, double loss) {
    return scalar_event(event.time, event.step, tag, static_cast<float>(loss));
  };
  std::vector<std::string> out{scalar("eval/loss", evaluation.loss)};
  for (const auto& [name, loss] : evaluation.sets) out.push_back(scalar("eval/loss/" + name, loss));
  return out;
}
std::vector<std::string> messages_of(const RunEvent&, const ParametersSeen&) {
  return {};  // written when the step is committed
}
template <typename Body>
std::vector<std::string> messages_of(const RunEvent& event, const Body&) {
  return {text_event(event.time, event.step, "run/events", to_text(to_json(event)))};
}

}  // namespace

void HistogramGatherer::add(const actors::RunEvent& event, const actors::ParametersSeen& seen) {
  Step& step = steps_[event.step];
  if (step.configuration != event.configuration) step = {.configuration = event.configuration};
  for (const auto& row : seen.rows) {
    Whole& whole = step.wholes[(row.is_gradient ? "gradients/" : "weights/") + row.tensor];
    whole.elements = row.whole;
    whole.histogram.add(row.part);
  }
}

std::map<std::string, HistogramGatherer::Whole> HistogramGatherer::take(std::int64_t step) {
  const auto found = steps_.find(step);
  if (found == steps_.end()) return {};
  auto wholes = std::move(found->second.wholes);
  steps_.erase(steps_.begin(), std::next(found));
  return wholes;
}

TensorBoard::TensorBoard(Hub& hub, const std::filesystem::path& folder,
                         std::function<void(const std::string&)> print_error)
    : folder_(folder),
      print_error_(std::move(print_error)),
      thread_(
          hub, "tensorboard",
          all_events() & ~mask_of<RankActivity, DirectorActivity, ActionsTraced, TensorTapped>(),
          [this](const Subscription::Batch& batch) { consume(batch); }) {}

void TensorBoard::consume(const Subscription::Batch& batch) {
  if (broken_) return;
  errno = 0;
  if (!file_) open();
  for (const auto& event : batch.events) {
    const bool committed = std::holds_alternative<StepCommitted>(event->body);
    if (committed) begin_session_at(std::get<StepCommitted>(event->body).report.step, event->time);
    for (const std::string& message :
         std::visit([&](const auto& body) { return messages_of(*event, body); }, event->body))
      write(message);
    if (const auto* seen = std::get_if<ParametersSeen>(&event->body))
      histograms_.add(*event, *seen);
    if (committed) write_histograms(*event);
  }
  if (!broken_ && file_ && std::fflush(file_.get()) == 0) return;
  broken_ = true;
  print_error_(
      fmt::format("{} cannot be written: {}; TensorBoard gets nothing more, the run goes on",
                  path_.string(), std::strerror(errno)));
}

void TensorBoard::write_histograms(const RunEvent& committed) {
  const std::int64_t step = std::get<StepCommitted>(committed.body).report.step;
  int incomplete = 0;
  for (const auto& [tag, whole] : histograms_.take(step)) {
    if (whole.is_complete())
      write(histogram_event(committed.time, step, tag, whole.histogram));
    else
      ++incomplete;
  }
  if (incomplete > 0)
    print_error_(fmt::format("TensorBoard lacks {} of step {}, as it is too slow for the run",
                             schedules::counted(incomplete, "histogram"), step));
}

void TensorBoard::open() {
  std::error_code ignored;
  std::filesystem::create_directories(folder_, ignored);
  path_ = folder_ / file_name();
  file_.reset(std::fopen(path_.c_str(), "wbe"));
  write(version_event(unix_seconds()));
}

/// A run that is resumed, or that goes back to a checkpoint, computes steps again that this file or
/// an earlier one has.
void TensorBoard::begin_session_at(std::int64_t step, double time) {
  if (last_step_ != step - 1) write(session_start_event(time, step));
  last_step_ = step;
}

void TensorBoard::write(const std::string& message) {
  if (!file_) return;
  const std::string record = to_record(message);
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size()) broken_ = true;
}

}  // namespace troupe::launch

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stop_token>
#include <utility>

#include "launch/commands/models/inference.h"
#include "launch/commands/options.h"
#include "launch/control/control_protocol.h"
#include "launch/host/console.h"
#include "launch/host/progress_line.h"
#include "launch/host/signals.h"
#include "schedules/plan/counted.h"
#include "stages/files/copies/hugging_face.h"

namespace troupe::launch {
namespace {

/// Names the first of these, and how many more there are.
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  if (names.size() <= kMost) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + kMost, ", "),
                     names.size() - kMost);
}

void tell(const stages::ModelCopy& copy, const std::string& output, bool as_json) {
  if (as_json)
    return print(to_text({{"directory", output},
                          {"files", copy.files},
                          {"unused_fields", copy.unused_fields},
                          {"left_out", copy.left_out},
                          {"tokenizer", copy.tokenizer}}) +
                 "\n");
  std::string lines = fmt::format("{} holds the model", output);
  if (!copy.files.empty()) lines += fmt::format(", with {}", some_of(copy.files));
  lines += '\n';
  if (!copy.unused_fields.empty())
    lines += fmt::format("note: config.json has fields that change nothing here: {}\n",
                         some_of(copy.unused_fields));
  if (!copy.left_out.empty())
    lines +=
        fmt::format("note: {} that the model does not need left out: {}\n",
                    schedules::counted(static_cast<std::int64_t>(copy.left_out.size()), "tensor"),
                    some_of(copy.left_out));
  if (!copy.tokenizer.empty()) lines += fmt::format("note: {}\n", copy.tokenizer);
  print(lines);
}

std::optional<stages::WeightDType> dtype_named(const std::string& name) {
  for (const auto dtype :
       {stages::WeightDType::f32, stages::WeightDType::bf16, stages::WeightDType::f16})
    if (stages::name_of(dtype) == name) return dtype;
  return std::nullopt;
}

/// The first signal stops a copy, which then leaves nothing; a second one ends the process.
class StoppedBySignal {
 public:
  StoppedBySignal() {
    auto orders = SignalWatch::ending_process("");
    orders.stop_now =
        std::exchange(orders.stop, [this](const std::string&) { source_.request_stop(); });
    signals_.orders(std::move(orders));
  }
  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  SignalWatch signals_{""};  // ends before what its thread uses
};

/// A program that reads JSON needs no progress.
stages::Progress progress_unless(bool as_json, const char* doing, const char* done) {
  return as_json ? stages::Progress{} : progress_line(doing, done);
}

}  // namespace

int run(const ImportOptions& options) {
  const StoppedBySignal stop;
  tell(stages::import_model(options.model, options.output, stop.token(),
                            progress_unless(options.json, "importing", "imported")),
       options.output, options.json);
  return 0;
}

int run(const ExportOptions& options) {
  const StoppedBySignal stop;
  tell(stages::export_model(model_directory(options.checkpoint), options.output,
                            dtype_named(options.dtype), stop.token(),
                            progress_unless(options.json, "exporting", "exported")),
       options.output, options.json);
  return 0;
}

}  // namespace troupe::launch

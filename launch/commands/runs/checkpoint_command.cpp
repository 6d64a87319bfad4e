#include <fmt/format.h>

#include "launch/commands/commands.h"
#include "launch/control/live_run.h"
#include "launch/host/console.h"
#include "launch/run/run_directory.h"
#include "tensor/error.h"

namespace troupe::launch {
namespace {

/// The answer of the run's launcher. There is no limit for it: it takes a step and the writing of
/// files, whose times are not known.
nlohmann::json order_checkpoint(const std::string& run) {
  auto asked = ask_run(run, "save");
  if (const auto* ending = std::get_if<Ending>(&asked))
    throw Error(ErrorKind::unavailable, "nothing to save: " + describe(*ending, run));
  const auto reply =
      std::get<std::unique_ptr<ControlClient>>(asked)->receive(ControlClient::kForEver);
  if (!reply)
    throw Error(ErrorKind::unavailable,
                "the run ended before the checkpoint: " + describe(ended_unanswered(run), run));
  if (reply->contains("error"))
    throw Error(ErrorKind::unavailable, reply->at("error").get<std::string>());
  return *reply;
}

}  // namespace

int run(const CheckpointOptions& options) {
  const nlohmann::json answer = order_checkpoint(options.run);
  if (const int code = answer.at("code").get<int>(); code != 0)
    throw Error(static_cast<ErrorKind>(code), answer.at("text").get<std::string>());
  const auto step = answer.at("step").get<std::int64_t>();
  const std::string path =
      std::filesystem::path(options.run) / kCheckpoints / fmt::format("step-{}", step);
  if (options.json)
    print(to_text({{"step", step}, {"checkpoint", path}}) + "\n");
  else
    print(path + "\n");
  return 0;
}

}  // namespace troupe::launch

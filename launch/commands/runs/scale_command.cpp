#include <fmt/format.h>

#include "launch/commands/commands.h"
#include "launch/control/live_run.h"
#include "launch/control/scale_request.h"
#include "launch/host/console.h"
#include "tensor/error.h"

namespace troupe::launch {
namespace {

[[noreturn]] void ended_on_the_way(const std::string& run) {
  throw Error(ErrorKind::unavailable,
              "the run ended before the change: " + describe(ended_unanswered(run), run));
}

}  // namespace

int run(const ScaleOptions& options) {
  const actors::ScaleRequest request{.pp = options.pp,
                                     .dp = options.dp,
                                     .tp = options.tp,
                                     .layout = options.layout,
                                     .schedule = options.schedule};
  if (actors::to_string(request).empty())
    throw Error(
        ErrorKind::usage,
        "nothing to change: give at least one of --pp, --dp, --tp, --layout and --schedule");
  parse_scale(to_json(request));  // refuses what no run takes
  auto asked = ask_run(options.run, "scale", to_json(request));
  if (const auto* ending = std::get_if<Ending>(&asked))
    throw Error(ErrorKind::unavailable, "nothing to scale: " + describe(*ending, options.run));
  // There is no limit for the answer: it takes a step and the start of workers, whose times are not
  // known.
  const auto reply =
      std::get<std::unique_ptr<ControlClient>>(asked)->receive(ControlClient::kForEver);
  if (!reply) ended_on_the_way(options.run);
  if (reply->contains("error"))
    throw Error(ErrorKind::unavailable, reply->at("error").get<std::string>());
  const int code = reply->at("code").get<int>();
  const std::string text = reply->at("text").get<std::string>();
  if (code != 0) throw Error(static_cast<ErrorKind>(code), text);
  print((options.json ? reply->dump(2) : text) + "\n");
  return 0;
}

}  // namespace troupe::launch

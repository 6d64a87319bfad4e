#include "launch/control/live_run.h"

#include <fmt/format.h>

#include "launch/run/run_directory.h"
#include "tensor/errors/error.h"

namespace troupe::launch {

std::variant<std::unique_ptr<ControlClient>, Ending> ask_run(const std::filesystem::path& run,
                                                             const std::string& request,
                                                             const nlohmann::json& fields) {
  require_run(run);
  if (const auto ending = ending_unless_live(run)) return *ending;
  const auto address = read_control(run);
  if (address) try {
      return std::make_unique<ControlClient>(*address, request, fields);
    } catch (const Error&) {
      // The run may have ended after its address was read and before it was asked.
      if (has_launcher(run) && !read_ending(run)) throw;
      return find_ending(run);
    }
  if (auto ending = read_ending(run)) return *ending;
  throw Error(ErrorKind::unavailable,
              fmt::format("the run in {} is just starting or ending; ask again", run.string()));
}

Ending ended_unanswered(const std::filesystem::path& run) {
  if (has_launcher(run) && !read_ending(run))
    throw Error(
        ErrorKind::unavailable,
        fmt::format("the launcher of {} closed the connection without an answer, as it does "
                    "for a wrong token; is {} its own?",
                    run.string(), (run / kControlFile).string()));
  return find_ending(run);
}

}  // namespace troupe::launch

#include "launch/commands/runs/live_run_commands.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>

#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

/// What has been opened of a live run.
template <typename Opened>
Opened live(std::variant<Opened, Ending> opened, const std::string& what, const std::string& run) {
  if (const auto* ending = std::get_if<Ending>(&opened))
    throw Error(ErrorKind::unavailable,
                fmt::format("nothing to {}: {}", what, describe(*ending, run)));
  return std::move(std::get<Opened>(opened));
}

}  // namespace

std::unique_ptr<ControlClient> order(const std::string& run, const std::string& what,
                                     const nlohmann::json& fields) {
  return live(ask_run(run, what, fields), what, run);
}

nlohmann::json order_and_wait(const std::string& run, const std::string& what,
                              const std::string& change, const nlohmann::json& fields) {
  const auto reply = order(run, what, fields)->receive(ControlClient::kForEver);
  if (!reply)
    throw Error(ErrorKind::unavailable, fmt::format("the run ended before the {}: {}", change,
                                                    describe(ended_unanswered(run), run)));
  if (reply->contains("error"))
    throw Error(ErrorKind::unavailable, reply->at("error").get<std::string>());
  if (const int code = reply->at("code").get<int>(); code != 0)
    throw Error(static_cast<ErrorKind>(code), reply->at("text").get<std::string>());
  return *reply;
}

std::unique_ptr<Attachment> attach(const std::string& run, const std::string& what,
                                   Attachment::Options options) {
  options.who += fmt::format(" of pid {}", getpid());
  return live(Attachment::open(run, options), what, run);
}

std::optional<Attachment::News> next_news(Attachment& run, SignalFd& signals) {
  std::array<pollfd, 2> ready{{{.fd = run.fd(), .events = POLLIN, .revents = 0},
                               {.fd = signals.fd(), .events = POLLIN, .revents = 0}}};
  poll(ready.data(), ready.size(), -1);
  if (signals.take() != 0) return std::nullopt;
  return run.take();
}

}  // namespace troupe::launch

#include "launch/monitors/attachment.h"

#include <fmt/format.h>
#include <poll.h>

#include <utility>

#include "launch/control/control_client.h"
#include "launch/run/run_directory.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

/// The number of frames that may be under way at a time.
constexpr unsigned kCredit = 8;

}  // namespace

std::variant<std::unique_ptr<Attachment>, Ending> Attachment::open(const std::filesystem::path& run,
                                                                   const Options& options) {
  auto asked = ask_run(
      run, "attach",
      {{"kinds", options.kinds}, {"who", options.who}, {"credit", kCredit}, {"tap", options.tap}});
  if (auto* ending = std::get_if<Ending>(&asked)) return std::move(*ending);
  auto client = std::move(std::get<std::unique_ptr<ControlClient>>(asked));
  const auto reply = client->receive(kReplyPatience);
  if (!reply) return ended_unanswered(run);
  if (!reply->contains("attached"))
    throw Error(ErrorKind::unavailable,
                fmt::format("{}: {}", run.string(),
                            reply->value("error", "its launcher does not know how to attach")));
  return std::unique_ptr<Attachment>(new Attachment(run, std::move(client), reply->at("attached")));
}

Attachment::Attachment(std::filesystem::path run, std::unique_ptr<ControlClient> client,
                       json status)
    : run_(std::move(run)), client_(std::move(client)), status_(std::move(status)) {}

Attachment::~Attachment() = default;

int Attachment::fd() const {
  return client_->fd();
}

Attachment::News Attachment::take() {
  News news;
  bool closed = false;
  while (const auto frame = client_->try_receive(closed)) read_frame(*frame, news);
  if (closed && !news.ended) news.ended = find_ending(run_);
  return news;
}

Attachment::News Attachment::wait() {
  pollfd ready{.fd = fd(), .events = POLLIN, .revents = 0};
  poll(&ready, 1, -1);
  return take();
}

void Attachment::read_frame(const json& frame, News& news) {
  if (frame.contains("ended")) {
    auto ending = parse_ending(frame.at("ended"));
    news.ended = ending ? std::move(*ending) : find_ending(run_);
    return;
  }
  if (!frame.contains("events") || !frame.at("events").is_array())
    throw Error(ErrorKind::unavailable, "the run sent something else than events");
  for (const json& event : frame.at("events"))
    if (event.is_object()) news.events.push_back(event);
  news.dropped += frame.value("dropped", std::uint64_t{0});
  if (!news.ended) client_->send({{"credit", 1}});
}

}  // namespace troupe::launch

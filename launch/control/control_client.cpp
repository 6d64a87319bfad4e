#include "launch/control/control_client.h"

#include <fmt/format.h>
#include <poll.h>

#include <array>
#include <memory>
#include <utility>

#include "launch/run/run_directory.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using std::chrono::milliseconds;

[[noreturn]] void unreachable(const ControlAddress& address, const std::string& why) {
  throw Error(
      ErrorKind::unavailable,
      fmt::format("the launcher (pid {}, {}:{}{}) does not answer: {}", address.pid, address.host,
                  address.port, address.on.empty() ? "" : " on " + address.on, why));
}

actors::Link connect_to(const ControlAddress& address, milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const bool is_of_hosts = !address.credentials.empty();
  if (!is_of_hosts || address.on == actors::name_of_this_host()) {
    actors::Connected plain = actors::try_connect(address.host, address.port, deadline);
    if (plain.fault.empty()) return {.socket = std::move(plain.socket)};
    if (!is_of_hosts) unreachable(address, plain.fault);
    // Another host may have the same name.
  }
  try {
    const auto context = std::make_shared<actors::TlsContext>(
        actors::parse_credentials(address.credentials), actors::Role::director);
    return actors::connect_tls(context, address.address, address.secure_port, deadline);
  } catch (const Error& error) {
    unreachable(address, error.what());
  }
}

}  // namespace

std::optional<ControlAddress> read_control(const std::filesystem::path& run) {
  const auto json = read_json(run / kControlFile);
  if (!json) return std::nullopt;
  const auto address = read_fields<ControlAddress>(*json);
  const bool whole =
      !address.host.empty() && !address.token.empty() && address.port != 0 && address.pid != 0;
  return whole ? std::optional(address) : std::nullopt;
}

ControlClient::ControlClient(const ControlAddress& address, const std::string& request,
                             const nlohmann::json& fields, milliseconds patience)
    : address_(address), link_(connect_to(address, patience)) {
  nlohmann::json frame = fields;
  frame["token"] = address.token;
  frame["request"] = request;
  if (send(frame)) return;
  const bool has_said_why = link_.session && !link_.session->fault().empty();
  unreachable(address_, has_said_why ? link_.session->fault() : "it closed the connection");
}

bool ControlClient::send(const nlohmann::json& json) {
  const std::string frame = to_frame(json);
  const auto deadline = std::chrono::steady_clock::now() + kReplyPatience;
  for (std::size_t sent = 0; sent < frame.size();) {
    const auto put = link_.write(frame.data() + sent, frame.size() - sent);
    if (!put || (*put == 0 && !actors::wait_for(fd(), POLLOUT, deadline))) return false;
    sent += *put;
  }
  return true;
}

std::optional<nlohmann::json> ControlClient::receive(milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    if (auto frame = next_frame()) return frame;
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd ready{.fd = fd(), .events = POLLIN, .revents = 0};
    const int count = timeout.count() == 0 ? poll(&ready, 1, -1)
                      : left.count() < 0   ? 0
                                           : poll(&ready, 1, static_cast<int>(left.count()));
    if (count == 0) unreachable(address_, fmt::format("no reply in {} ms", timeout.count()));
    if (count > 0 && !read_some()) return std::nullopt;
  }
}

std::optional<nlohmann::json> ControlClient::try_receive(bool& closed) {
  if (auto frame = next_frame()) return frame;
  closed = !read_some();
  return next_frame();
}

std::optional<nlohmann::json> ControlClient::next_frame() {
  const auto frame = in_.next();
  if (in_.broken()) unreachable(address_, "it sent something else than a reply");
  if (!frame) return std::nullopt;
  nlohmann::json json = nlohmann::json::parse(*frame, nullptr, false);
  if (!json.is_object()) unreachable(address_, "it sent something else than a reply");
  return json;
}

/// Receives some bytes into the frame reader. Returns false if the other side has closed the
/// connection.
bool ControlClient::read_some() {
  std::array<char, 65536> bytes;
  const auto got = link_.read(bytes.data(), bytes.size());
  if (got) in_.add({bytes.data(), *got});
  return got.has_value();
}

namespace {

/// Whether a launcher on another host may own the directory although its lock is not seen here: not
/// every file system shows locks to other hosts.
bool may_live_elsewhere(const std::filesystem::path& run) {
  try {
    const auto address = read_control(run);
    return address && !address->on.empty() && address->on != actors::name_of_this_host() &&
           !read_ending(run);
  } catch (const Error&) {
    return false;  // it is another user's
  }
}

}  // namespace

std::variant<std::unique_ptr<ControlClient>, Ending> ask_run(const std::filesystem::path& run,
                                                             const std::string& request,
                                                             const nlohmann::json& fields) {
  require_run(run);
  if (const auto ending = ending_unless_live(run); ending && !may_live_elsewhere(run))
    return *ending;
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

#include "launch/hosts/gathering.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>

#include "actors/messages/secret.h"
#include "actors/security/sockets.h"
#include "launch/hosts/invitation.h"
#include "launch/hosts/ssh_remedy.h"
#include "launch/hosts/traits.h"
#include "tensor/errors/error.h"
#include "transport/ucx/network_interface.h"

namespace troupe::launch {
namespace {

using actors::Host;
using Start = HostsPlan::Start;
using transport::NetworkInterface;

/// How long the others are waited for once a host is known not to come, so that all which cannot
/// are named and none which can is: ssh itself waits ten seconds for a host that is down.
constexpr std::chrono::seconds kOthers{12};
/// An address of IPv4 or IPv6 that no network uses: the route to it is that to elsewhere.
constexpr std::array kElsewhere{"192.0.2.1", "2001:db8::1"};

/// The numeric addresses that a name stands for.
std::vector<std::string> addresses_of(const std::string& name) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  std::vector<std::string> addresses;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return addresses;
  for (const addrinfo* each = found; each; each = each->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(each->ai_addr, each->ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) == 0)
      addresses.emplace_back(text.data());
  }
  freeaddrinfo(found);
  return addresses;
}

/// The interface of this host by a name under which the others know it.
NetworkInterface interface_called(const std::string& name) {
  const auto addresses = addresses_of(name);
  for (const NetworkInterface& interface : transport::network_interfaces())
    if (std::ranges::find(addresses, interface.address) != addresses.end()) return interface;
  throw Error(ErrorKind::unavailable,
              fmt::format("rendezvous {}: no network interface of this host has an address of "
                          "that name ({})",
                          name,
                          addresses.empty() ? "which is not known here"
                                            : fmt::format("{}", fmt::join(addresses, ", "))));
}

/// The interface at which the others reach this host: as the user says, else that of the route to
/// one of them, else that of the route to elsewhere, else the only one.
NetworkInterface interface_of(const Manifest& manifest, const HostsPlan& plan,
                              const std::string& own) {
  const std::string& called = manifest->cluster.interface;
  if (!called.empty())
    return manifest.about(called, [&] { return transport::find_interface(called); });
  if (!plan.address.empty()) return interface_called(plan.address);
  std::vector<std::string> towards;
  for (const Host& host : plan.named)
    if (host.name != own) towards.push_back(host.name);
  towards.insert(towards.end(), kElsewhere.begin(), kElsewhere.end());
  std::string why;
  for (const std::string& other : towards) try {
      return transport::interface_towards(other);
    } catch (const Error& error) {  // a name that only ssh knows, or a family that is not here
      if (why.empty()) why = error.what();
    }
  std::vector<NetworkInterface> out;
  for (const NetworkInterface& interface : transport::network_interfaces())
    if (!interface.address.starts_with("127.") && interface.address != "::1" &&
        !interface.name.starts_with("docker"))  // a bridge within this host
      out.push_back(interface);
  const auto is_of_first = [&](const NetworkInterface& one) { return one.name == out[0].name; };
  if (!out.empty() && std::ranges::all_of(out, is_of_first)) return out.front();
  throw Error(ErrorKind::unavailable,
              why + "; name this host's network interface to the others in cluster.interface");
}

}  // namespace

HostGathering::HostGathering(HostsPlan plan, const Manifest& manifest, const Machine& machine)
    : plan_(std::move(plan)),
      authority_(plan_.token.empty() ? actors::Authority() : actors::Authority(plan_.token)),
      engine_(manifest->engine),
      traits_(own_traits(!engine_.mixed_cpus)),
      interface_(manifest->cluster.interface),
      ports_(manifest->cluster.ports),
      machine_(machine),
      alike_((manifest->num_ranks() + plan_.count - 1) / std::max(1, plan_.count)),
      own_(!plan_.own.empty() ? plan_.own : find_own_host(plan_.named)),
      has_charge_(!plan_.takeover) {
  if (own_.empty() && plan_.named.empty()) own_ = host_name();
  if (plan_.takeover && plan_.takeover->has_agent(own_)) own_.clear();  // that starts workers
  open_door(manifest);
  if (plan_.takeover) take_over();
  if (!plan_.shared.empty()) invite(plan_.shared);
  if (!plan_.takeover && plan_.token.empty() && !plan_.token_file.empty())
    leave_for_hosts(plan_.token_file, authority_.secret());
  start_agents();
}

void HostGathering::open_door(const Manifest& manifest) {
  const NetworkInterface interface = interface_of(manifest, plan_, own_);
  address_ = interface.address;
  if (!engine_.trusted_network && !transport::is_private_address(address_))
    throw Error(
        ErrorKind::manifest,
        fmt::format("{}: the address of {} to the other hosts, {}, is not private, and messages "
                    "between ranks are plain text; name another interface in cluster.interface, or "
                    "accept this network by cluster.trusted_network = true",
                    manifest.name(), own_.empty() ? "this host" : own_, address_));
  std::map<std::string, int> slots;
  for (const Host& host : plan_.named) slots[host.name] = host.slots;
  door_ = actors::Hosts::open(
      {.address = address_,
       .port = plan_.port,
       .credentials = authority_.issue(actors::Role::director, "director"),
       .traits = traits_,
       .slots = slots,
       .other_slots = alike_,
       .silent_s = manifest->recovery.silent_s,
       .trusted_network = engine_.trusted_network,
       .wait_s = engine_.director_wait_s,
       .on_lost = [starting = starting_](const std::string& host) { starting->again(host); },
       .own = own_,
       .device = interface.address,
       .ends_s = own_time_limit(),
       .ports = manifest->cluster.ports});
}

/// Hosts whose agents obey this launcher.
std::set<std::string> HostGathering::hosts_there() const {
  std::set<std::string> there;
  for (const auto& entry : door_->registry().entries())
    if (!entry.lost) there.insert(entry.host.name);
  return there;
}

void HostGathering::Starting::again(const std::string& host) {
  const std::lock_guard guard(mutex);
  if (starter) starter->again(host);
}

HostGathering::~HostGathering() {
  if (has_charge_) door_->dismiss("the run is over");
  std::unique_ptr<AgentStarter> starter;
  {
    const std::lock_guard lock(starting_->mutex);
    starter = std::move(starting_->starter);
  }
  starter.reset();  // which waits for its commands, and uses this object until then
  for (const std::filesystem::path& file : invitations_) {
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
  }
}

std::string HostGathering::invitation_to(const std::string& host) const {
  Invitation invitation{.host = host,
                        .address = address_,
                        .port = door_->port(),
                        .credentials = actors::to_text(
                            authority_.issue(actors::Role::host, host.empty() ? "any host" : host)),
                        .interface = interface_,
                        .ports = ports_};
  for (const std::string& name : engine_.forward)
    if (const char* value = std::getenv(name.c_str())) invitation.environment[name] = value;
  return to_line(invitation);
}

void HostGathering::invite(const std::filesystem::path& file) {
  leave_for_hosts(file, invitation_to(""));
}

/// Leaves a line in a file that only this user can read, until the object ends.
void HostGathering::leave_for_hosts(const std::filesystem::path& file, const std::string& line) {
  const std::filesystem::path unfinished = file.string() + ".new";
  std::error_code ignored;  // what cannot be made or removed, open() fails for
  std::filesystem::create_directories(file.parent_path(), ignored);
  std::filesystem::remove(unfinished, ignored);
  const int fd = open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool written =
      fd >= 0 && write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (fd >= 0) close(fd);
  if (!written)
    throw Error(ErrorKind::data,
                "cannot write the file by which other hosts join, " + file.string());
  std::filesystem::rename(unfinished, file);  // readers find it whole, or not at all
  invitations_.push_back(file);
}

std::string HostGathering::join_line() const {
  if (plan_.start != Start::themselves || plan_.token_file.empty()) return "";
  return fmt::format(
      "join      {} of {} hosts are to come; on each, with a copy of that file if it does not see "
      "it: troupe join --rendezvous {} --token-file {}\n",
      plan_.count - (own_.empty() ? 0 : 1), plan_.count,
      actors::address_text(address_, door_->port()),
      std::filesystem::absolute(plan_.token_file).string());
}

bool HostGathering::on_end(const std::string& host, const std::string& cause) {
  if (hosts_there().contains(host)) return true;
  const std::string helps = plan_.start == Start::ssh ? ssh_remedy(host, cause) : "";
  door_->registry().refuse(host, helps.empty() ? cause : cause + "; " + helps);
  return false;
}

/// Who came and was refused, probably for one of those that nobody has named; empty: nobody was.
std::string HostGathering::refused() const {
  std::vector<std::string> all;
  for (const auto& [host, cause] : door_->registry().refusals()) all.push_back(host + ": " + cause);
  if (const std::uint64_t strangers = door_->refused(); strangers > 0)
    all.push_back(fmt::format("{} connection{} without the run's secret, which --token-file names",
                              strangers, strangers == 1 ? "" : "s"));
  return all.empty() ? "" : fmt::format(" (refused were {})", fmt::join(all, "; "));
}

std::vector<HostGathering::Missing> HostGathering::missing() const {
  std::set<std::string> joined = hosts_there();
  if (!own_.empty()) joined.insert(own_);
  const auto refusals = door_->registry().refusals();
  const auto why = [&](const std::string& host) {
    const auto found = refusals.find(host);
    return found == refusals.end() ? "" : found->second;
  };
  std::vector<Missing> missing;
  for (const Host& host : plan_.named) {
    if (joined.contains(host.name)) continue;
    const std::string own = why(host.name);
    missing.push_back({host.name, own.empty() ? why("") : own});  // or of the command for all
  }
  const int unnamed = plan_.named.empty() ? plan_.count - static_cast<int>(joined.size()) : 0;
  for (int i = 0; i < unnamed; ++i)
    missing.push_back({"a host that comes by itself" + (i == 0 ? refused() : ""), ""});
  return missing;
}

std::string HostGathering::text_of(const std::vector<Missing>& hosts) const {
  std::string text;
  for (const auto& [host, why] : hosts) {
    text += (text.empty() ? "" : "; ") + host;
    if (!why.empty())
      text += " (" + why + ")";
    else if (!plan_.named.empty())
      text += fmt::format(" (nothing heard of it at {}:{})", address_, door_->port());
  }
  return text;
}

void HostGathering::wait(const std::function<void(const std::string& text)>& tell) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kTellEvery{10};
  const auto deadline = Clock::now() + std::chrono::duration<double>(engine_.wait_s);
  auto tell_at = Clock::now() + std::chrono::seconds(2);
  std::optional<Clock::time_point> others_by;
  const auto min_hosts = static_cast<std::size_t>(engine_.min_hosts);
  const auto count = static_cast<std::size_t>(plan_.count);
  std::vector<Missing> left;
  bool hopeless = false;
  const auto are_enough = [&] { return min_hosts > 0 && count - left.size() >= min_hosts; };
  door_->registry().wait([&] {
    left = missing();
    const bool all_told = std::ranges::none_of(left, &std::string::empty, &Missing::why);
    const bool any_told = std::ranges::any_of(left, [](const auto& x) { return !x.why.empty(); });
    if (any_told && !others_by) others_by = Clock::now() + kOthers;
    // A host that comes by itself may be started again; a command of ours has said why it failed.
    const bool ours = plan_.start != Start::themselves;
    hopeless = ours && min_hosts == 0 && any_told && (all_told || Clock::now() > *others_by);
    // One that failed may still join the run that has begun: it is no reason to wait.
    const bool ends =
        left.empty() || hopeless || (ours && all_told && are_enough()) || Clock::now() > deadline;
    if (!ends && Clock::now() > tell_at) {
      tell(fmt::format("waiting   for {}\n", text_of(left)));
      tell_at = Clock::now() + kTellEvery;
    }
    return ends;
  });
  if (left.empty()) return;
  if (are_enough())
    return tell(
        fmt::format("hosts     the run begins with {} of {}, as cluster.min_hosts = {} "
                    "allows; missing: {}\n",
                    count - left.size(), count, min_hosts, text_of(left)));
  throw Error(
      ErrorKind::unavailable,
      fmt::format("{} of {} hosts have not joined{}: {}", left.size(), count,
                  hopeless ? "" : fmt::format(" within cluster.wait = {:g} s", engine_.wait_s),
                  text_of(left)));
}

std::vector<Host> HostGathering::hosts() const {
  std::map<std::string, Host> joined;
  for (const auto& entry : door_->registry().entries())
    if (!entry.lost) joined[entry.host.name] = entry.host;
  if (!own_.empty())
    joined[own_] = {.name = own_,
                    .slots = plan_.own_slots > 0 ? plan_.own_slots : alike_,
                    .cores = machine_.own_cores(),
                    .memory_bytes = machine_.memory_bytes};
  std::vector<Host> hosts;
  for (const Host& named : plan_.named)
    if (const auto found = joined.find(named.name); found != joined.end()) {
      hosts.push_back(found->second);
      hosts.back().slots = named.slots;
    }
  if (plan_.named.empty())
    for (const auto& [name, host] : joined) hosts.push_back(host);
  return hosts;
}

}  // namespace troupe::launch

#include "transport/ucx/network_interface.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>

#include "tensor/errors/error.h"

namespace troupe::transport {
namespace {

bool is_loopback(const std::string& address) {
  return address == "::1" || address.starts_with("127.");
}

bool is_loopback(const std::string& name, const std::vector<NetworkInterface>& all) {
  return std::ranges::any_of(all, [&name](const NetworkInterface& one) {
    return one.name == name && is_loopback(one.address);
  });
}

/// The numeric address; empty for a family other than IPv4 and IPv6, and for link-local IPv6.
std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address->sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else if (address->sa_family == AF_INET6) {
    const auto& ipv6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&ipv6)) bytes = &ipv6;
  }
  if (!bytes || !inet_ntop(address->sa_family, bytes, text.data(), text.size())) return "";
  return text.data();
}

/// "eth0 (192.0.2.2, fd00::2), lo (127.0.0.1)".
std::string existing() {
  std::vector<std::string> names, texts;
  const auto all = network_interfaces();
  for (const NetworkInterface& one : all)
    if (std::ranges::find(names, one.name) == names.end()) names.push_back(one.name);
  for (const std::string& name : names) {
    std::vector<std::string> addresses;
    for (const NetworkInterface& one : all)
      if (one.name == name) addresses.push_back(one.address);
    texts.push_back(fmt::format("{} ({})", name, fmt::join(addresses, ", ")));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// The address from which this machine would send to `host`.
std::string address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;  // connecting such a socket chooses a route, and sends nothing
  addrinfo* list = nullptr;
  constexpr const char* kAnyPort = "9";
  if (const int code = ::getaddrinfo(host.c_str(), kAnyPort, &hints, &list); code != 0)
    throw Error(ErrorKind::unavailable,
                fmt::format("no address is known for {}: {}", host, ::gai_strerror(code)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  int why = 0;
  for (const addrinfo* to = list; to; to = to->ai_next) {
    const int fd = ::socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    const bool ok = fd >= 0 && ::connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
                    ::getsockname(fd, reinterpret_cast<sockaddr*>(&from), &length) == 0;
    if (!ok) why = errno;
    if (fd >= 0) ::close(fd);
    if (ok) return text_of(reinterpret_cast<sockaddr*>(&from));
  }
  throw Error(ErrorKind::unavailable, fmt::format("no route to {}: {}", host, std::strerror(why)));
}

/// The addresses of IPv4 that begin with the first bits of `network`.
struct Network {
  std::uint32_t network;
  int bits;
  bool has(std::uint32_t address) const { return (address ^ network) >> (32 - bits) == 0; }
};
constexpr std::array kPrivateNetworks{Network{0x0a000000, 8},   // 10.0.0.0/8
                                      Network{0xac100000, 12},  // 172.16.0.0/12
                                      Network{0xc0a80000, 16},  // 192.168.0.0/16
                                      Network{0x64400000, 10},  // 100.64.0.0/10
                                      Network{0xa9fe0000, 16},  // 169.254.0.0/16
                                      Network{0x7f000000, 8}};  // 127.0.0.0/8

bool is_private(const in_addr& address) {
  return std::ranges::any_of(kPrivateNetworks, [host = ntohl(address.s_addr)](const Network& one) {
    return one.has(host);
  });
}

bool is_private(const in6_addr& address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    in_addr ipv4{};
    std::memcpy(&ipv4, &address.s6_addr[12], sizeof ipv4);
    return is_private(ipv4);
  }
  const bool is_unique_local = (address.s6_addr[0] & 0xfe) == 0xfc;  // fc00::/7
  return is_unique_local || IN6_IS_ADDR_LINKLOCAL(&address) || IN6_IS_ADDR_LOOPBACK(&address);
}

}  // namespace

bool is_private_address(const std::string& address) {
  const std::string plain = address.substr(0, address.find('%'));
  in_addr ipv4{};
  in6_addr ipv6{};
  if (inet_pton(AF_INET, plain.c_str(), &ipv4) == 1) return is_private(ipv4);
  return inet_pton(AF_INET6, plain.c_str(), &ipv6) == 1 && is_private(ipv6);
}

std::vector<NetworkInterface> network_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    throw Error(ErrorKind::unavailable,
                fmt::format("the network interfaces cannot be listed: {}", std::strerror(errno)));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<NetworkInterface> found;
  for (const ifaddrs* one = list; one; one = one->ifa_next) {
    if (!one->ifa_addr || (one->ifa_flags & IFF_UP) == 0) continue;
    if (const std::string address = text_of(one->ifa_addr); !address.empty())
      found.push_back({one->ifa_name, address});
  }
  return found;
}

NetworkInterface interface_towards(const std::string& host) {
  const std::string address = address_towards(host);
  if (is_loopback(address))
    throw Error(ErrorKind::unavailable,
                fmt::format("the route to {} stays on this machine ({}), where other hosts cannot "
                            "reach it; give an address of its network, or name an interface: {}",
                            host, address, existing()));
  const auto all = network_interfaces();
  const auto found = std::ranges::find(all, address, &NetworkInterface::address);
  // UCX would take another address of a loopback interface that has this one too.
  if (found != all.end() && !is_loopback(found->name, all)) return *found;
  throw Error(ErrorKind::unavailable,
              fmt::format("the route to {} begins at an address that no interface has for other "
                          "hosts{}; name an interface: {}",
                          host, address.empty() ? "" : fmt::format(" ({})", address), existing()));
}

NetworkInterface find_interface(const std::string& name_or_address) {
  auto all = network_interfaces();
  std::ranges::stable_partition(all, [](const auto& one) { return !one.is_ipv6(); });
  const auto found = std::ranges::find_if(all, [&](const NetworkInterface& one) {
    return one.name == name_or_address || one.address == name_or_address;
  });
  if (found != all.end()) return *found;
  const bool exists = ::if_nametoindex(name_or_address.c_str()) != 0;
  throw Error(
      ErrorKind::unavailable,
      fmt::format("{}; this machine has {}",
                  exists ? fmt::format("the network interface \"{}\" is down, or has no "
                                       "address that other hosts could use",
                                       name_or_address)
                         : fmt::format("there is no network interface \"{}\"", name_or_address),
                  existing()));
}

std::optional<PortRange> parse_ports(const std::string& text) {
  PortRange range;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, range.first);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '-') return std::nullopt;
  const auto last = std::from_chars(first.ptr + 1, end, range.last);
  const bool is_range = last.ec == std::errc{} && last.ptr == end && 1 <= range.first &&
                        range.first <= range.last && range.last <= 65535;
  return is_range ? std::optional(range) : std::nullopt;
}

bool is_free_port(int port, const std::string& address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const int fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool is_free = fd >= 0 && ::bind(fd, found->ai_addr, found->ai_addrlen) == 0;
  if (fd >= 0) ::close(fd);
  return is_free;
}

}  // namespace troupe::transport

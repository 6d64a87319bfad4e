#include "launch/manifest/checks/http_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "actors/security/sockets.h"
#include "launch/host/machine.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

bool is_port(const std::string& text, int& port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() && port >= 0 && port <= 65535;
}

bool is_ip(int family, const std::string& host) {
  in6_addr ignored{};  // has room for the longest address
  return inet_pton(family, host.c_str(), &ignored) == 1;
}

bool is_bracketed(const std::string& host) {
  return host.size() > 2 && host.front() == '[' && host.back() == ']';
}

/// Whether the host is an IPv6 address in brackets, as it is written before a port.
bool is_ip6(const std::string& host) {
  return is_bracketed(host) && is_ip(AF_INET6, host.substr(1, host.size() - 2));
}

bool is_host(const std::string& host) {
  return host == "localhost" || is_ip(AF_INET, host);
}

/// A socket bound to the address, or -1 with errno set.
int bind_to(const HttpAddress& address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  errno = EADDRNOTAVAIL;
  if (getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found) != 0)
    return -1;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> where(found, &freeaddrinfo);
  const int fd = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // A port counts as free although its last connections are in TIME_WAIT.
  const int on = 1;
  if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (fd >= 0 && bind(fd, where->ai_addr, where->ai_addrlen) == 0 && listen(fd, 1) == 0) return fd;
  const int code = errno;
  if (fd >= 0) close(fd);
  errno = code;
  return -1;
}

bool is_name_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
}

/// The form in which names are compared: without brackets and final dot, in lower case.
std::string plain(std::string host) {
  if (is_bracketed(host)) host = host.substr(1, host.size() - 2);
  if (host.ends_with('.')) host.pop_back();
  std::ranges::transform(host, host.begin(), [](unsigned char c) { return std::tolower(c); });
  return host;
}

/// The host in a Host header, without the port.
std::string host_in(const std::string& header) {
  if (header.starts_with('[')) return header.substr(0, header.find(']') + 1);
  return header.substr(0, header.rfind(':'));
}

/// The name with its domain, if the machine knows the domain.
std::string full_name(const std::string& name) {
  addrinfo hints{};
  hints.ai_flags = AI_CANONNAME;
  addrinfo* found = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return name;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> where(found, &freeaddrinfo);
  return where->ai_canonname ? where->ai_canonname : name;
}

std::vector<std::string> own_addresses() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(all, &freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* i = all; i; i = i->ifa_next) {
    if (!i->ifa_addr) continue;
    const int family = i->ifa_addr->sa_family;
    const socklen_t size = family == AF_INET    ? sizeof(sockaddr_in)
                           : family == AF_INET6 ? sizeof(sockaddr_in6)
                                                : 0;
    std::array<char, NI_MAXHOST> text{};
    if (size == 0 ||
        getnameinfo(i->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    const std::string address = text.data();
    addresses.push_back(address.substr(0, address.find('%')));  // without the interface name
  }
  return addresses;
}

}  // namespace

std::string check_http_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  int port = 0;
  if (colon != std::string::npos && is_host(text.substr(0, colon)) &&
      is_port(text.substr(colon + 1), port))
    return "";
  if (colon != std::string::npos && is_ip6(text.substr(0, colon)))
    return fmt::format(
        "\"{}\" is an IPv6 address; monitors answer on IPv4 alone, which civetweb as Debian builds "
        "it "
        "is made for: \"127.0.0.1:0\" for any free port",
        text);
  return fmt::format(
      "\"{}\" is not a valid address; use an IP address and a port, as \"127.0.0.1:9090\", "
      "or "
      "\"127.0.0.1:0\" for any free port",
      text);
}

HttpAddress parse_http_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  HttpAddress address{.host = text.substr(0, colon)};
  if (address.host == "localhost") address.host = "127.0.0.1";
  is_port(text.substr(colon + 1), address.port);
  return address;
}

void check_can_bind(const std::vector<KeyedAddress>& addresses) {
  std::vector<int> bound;
  std::string wrong;
  for (const KeyedAddress& keyed : addresses) {
    bound.push_back(bind_to(keyed.address));
    const int code = errno;
    const bool host = code == EADDRNOTAVAIL || code == EINVAL || code == EAFNOSUPPORT;
    if (bound.back() < 0 && wrong.empty())
      wrong = fmt::format("{} = \"{}\" cannot be used: {}; {}", keyed.key, keyed.address.text(),
                          std::strerror(code),
                          host ? "127.0.0.1 is this machine's own address, 0.0.0.0 all that it has"
                               : "port 0 takes any free port");
  }
  for (const int fd : bound)
    if (fd >= 0) close(fd);
  if (!wrong.empty()) throw Error(ErrorKind::manifest, wrong);
}

void check_hosts(std::vector<KeyedAddress> addresses) {
  for (KeyedAddress& keyed : addresses) keyed.address.port = 0;
  check_can_bind(addresses);
}

std::string HttpAddress::text() const {
  return fmt::format("{}:{}", host, port);
}

std::string HttpAddress::url(int bound_port, const std::string& path) const {
  return fmt::format("http://{}:{}{}", host, bound_port, path);
}

std::string check_host_name(const std::string& text) {
  if (is_ip(AF_INET6, plain(text)) || (!text.empty() && std::ranges::all_of(text, is_name_letter)))
    return "";
  return fmt::format(
      "\"{}\" is not a host name; use a name or an address without scheme and port, as "
      "\"node7.example.org\" or \"10.0.0.7\"",
      text);
}

std::vector<std::string> own_host_names() {
  const std::string name = host_name();
  std::vector<std::string> names{name, full_name(name), name.substr(0, name.find('.')),
                                 "localhost"};
  for (std::string& address : own_addresses()) names.push_back(std::move(address));
  return names;
}

HostNames::HostNames(const std::vector<std::string>& names, const HttpAddress& bound) {
  const std::vector<std::string> hosts = names.empty() ? own_host_names() : names;
  for (const std::string& host : hosts) names_.insert(plain(host));
  names_.insert({"localhost", "127.0.0.1", "::1", plain(bound.host)});
  first_ = actors::host_text(plain(bound.is_any() ? hosts.front() : bound.host));
}

bool HostNames::has(const std::string& header) const {
  return names_.contains(plain(host_in(header)));
}

}  // namespace troupe::launch

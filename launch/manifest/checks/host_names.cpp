#include "launch/manifest/checks/host_names.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>

#include "launch/host/machine.h"

namespace troupe::launch {
namespace {

bool is_name_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
}

bool is_bracketed(const std::string& host) {
  return host.size() > 2 && host.front() == '[' && host.back() == ']';
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

std::string check_host_name(const std::string& text) {
  in6_addr ignored{};
  const bool is_v6 = inet_pton(AF_INET6, plain(text).c_str(), &ignored) == 1;
  if (is_v6 || (!text.empty() && std::ranges::all_of(text, is_name_letter))) return "";
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
  first_ = bound.is_any() ? plain(hosts.front()) : bound.host;
  if (first_.find(':') != std::string::npos && !is_bracketed(first_)) first_ = "[" + first_ + "]";
}

bool HostNames::has(const std::string& header) const {
  return names_.contains(plain(host_in(header)));
}

}  // namespace troupe::launch

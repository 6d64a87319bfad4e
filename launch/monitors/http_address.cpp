#include "launch/monitors/http_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>

namespace troupe::launch {
namespace {

bool is_port(const std::string& text, int& port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() && port >= 0 && port <= 65535;
}

bool is_ip(int family, const std::string& host) {
  in6_addr ignored{};
  return inet_pton(family, host.c_str(), &ignored) == 1;
}

bool is_host(const std::string& host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    return is_ip(AF_INET6, host.substr(1, host.size() - 2));
  return host == "localhost" || is_ip(AF_INET, host);
}

}  // namespace

std::string check_http_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  int port = 0;
  if (colon != std::string::npos && is_host(text.substr(0, colon)) &&
      is_port(text.substr(colon + 1), port))
    return "";
  return fmt::format(
      "\"{}\" is no address to answer at; it is an IP address and a port, as \"127.0.0.1:9090\", "
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

std::string HttpAddress::text() const {
  return fmt::format("{}:{}", host, port);
}

std::string HttpAddress::url(int bound_port, const std::string& path) const {
  return fmt::format("http://{}:{}{}", host, bound_port, path);
}

}  // namespace troupe::launch

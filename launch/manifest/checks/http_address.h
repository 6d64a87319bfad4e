#pragma once

#include <string>
#include <vector>

namespace troupe::launch {

/// An address at which a monitor answers HTTP requests: "host:port" in the manifest. The host is an
/// IPv4 address or localhost.
struct HttpAddress {
  std::string host;
  int port = 0;  ///< 0: any free port

  /// Whether it binds all of the machine's addresses, in which case the host cannot be used in a
  /// URL.
  bool is_any() const { return host == "0.0.0.0"; }
  /// The address as civetweb takes it: "127.0.0.1:9090".
  std::string text() const;
  /// The URL of a path at the port that was bound: "http://127.0.0.1:9090" + path.
  std::string url(int bound_port, const std::string& path) const;
};

/// Why a text is not a valid address, with an example of one that is; empty if it is valid.
std::string check_http_address(const std::string& text);
/// Parses a text that has passed check_http_address().
HttpAddress parse_http_address(const std::string& text);

struct KeyedAddress {
  std::string key;  ///< key of the manifest
  HttpAddress address;
};
/// Binds all addresses at the same time, as a test, and releases them. Throws Error{manifest}
/// naming the first one that cannot be bound, and why.
void check_can_bind(const std::vector<KeyedAddress>& addresses);
/// Checks that this machine has the hosts, whether or not the ports are free now. Throws
/// Error{manifest} naming the first host that it does not have.
void check_hosts(std::vector<KeyedAddress> addresses);

}  // namespace troupe::launch

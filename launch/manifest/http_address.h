#pragma once

#include <string>
#include <vector>

namespace troupe::launch {

/// Where a monitor answers HTTP requests: "host:port" of the manifest. The host is an IPv4
/// address or localhost.
struct HttpAddress {
  std::string host;
  int port = 0;  ///< 0: any free one

  /// Bound to all of the machine's addresses, so that it is none to ask at.
  bool is_any() const { return host == "0.0.0.0"; }
  /// The form that civetweb binds: "127.0.0.1:9090".
  std::string text() const;
  /// "http://127.0.0.1:9090" + path, for the port that was bound.
  std::string url(int bound_port, const std::string& path) const;
};

/// Why a text is no address, with an example of one; empty if it is one.
std::string check_http_address(const std::string& text);
/// The text has passed the check.
HttpAddress parse_http_address(const std::string& text);

struct KeyedAddress {
  std::string key;  ///< of the manifest
  HttpAddress address;
};
/// Tries whether all of them can be answered at, at once. Throws Error{manifest} naming the first
/// one that cannot, and why.
void check_can_bind(const std::vector<KeyedAddress>& addresses);
/// Whether this machine has the hosts, whoever has the ports now. Throws likewise.
void check_hosts(std::vector<KeyedAddress> addresses);

}  // namespace troupe::launch

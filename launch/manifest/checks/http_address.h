#pragma once

#include <set>
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

/// Why a text is not valid in monitor.hosts, with an example of one that is; empty if it is valid.
std::string check_host_name(const std::string& text);

/// This machine's names and addresses: localhost, the host name with and without its domain, and
/// the addresses of the interfaces.
std::vector<std::string> own_host_names();

/// The host names under which the web page is served. A request's Host header holds the name in the
/// browser's address bar. Under DNS rebinding, where a page from another site has its name resolve
/// to this machine, the header holds a name that is not in this set.
class HostNames {
 public:
  /// Holds `names`, or the machine's own names if it is empty, and in any case those of loopback
  /// and of the address to which the page is bound.
  HostNames(const std::vector<std::string>& names, const HttpAddress& bound);
  /// Whether a request with this Host header is for this page.
  bool has(const std::string& header) const;
  /// The name to show in URLs, for people on other machines.
  const std::string& first() const { return first_; }

 private:
  std::set<std::string> names_;
  std::string first_;
};

}  // namespace troupe::launch

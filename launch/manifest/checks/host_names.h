#pragma once

#include <set>
#include <string>
#include <vector>

#include "launch/manifest/checks/http_address.h"

namespace troupe::launch {

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

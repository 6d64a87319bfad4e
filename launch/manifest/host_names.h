#pragma once

#include <set>
#include <string>
#include <vector>

#include "launch/manifest/http_address.h"

namespace troupe::launch {

/// Why a text cannot stand in monitor.hosts, with an example of what can; empty if it can.
std::string check_host_name(const std::string& text);

/// This machine's names and addresses: localhost, its host name with and without its domain, and
/// the addresses of its interfaces.
std::vector<std::string> own_host_names();

/// The names by which a page may be asked for. A request names its host as the browser's address
/// bar has it: a page from elsewhere whose name was made to mean this machine (DNS rebinding) shows
/// a name that is not here.
class HostNames {
 public:
  /// `names`, else the machine's own; beside them those of loopback and where the page is bound.
  HostNames(const std::vector<std::string>& names, const HttpAddress& bound);
  /// Whether a request with this Host header is for this page.
  bool has(const std::string& header) const;
  /// The one to show to people who come from elsewhere.
  const std::string& first() const { return first_; }

 private:
  std::set<std::string> names_;
  std::string first_;
};

}  // namespace troupe::launch

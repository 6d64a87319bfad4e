#pragma once

#include <optional>
#include <string>
#include <vector>

namespace troupe::transport {

/// A network interface of this machine, and an address of it.
struct NetworkInterface {
  std::string name;
  std::string address;  ///< numeric, of IPv4 or IPv6
  bool is_ipv6() const { return address.find(':') != std::string::npos; }
  bool operator==(const NetworkInterface&) const = default;
};

/// The interfaces of this machine that are up, once for each address: loopback too, but no
/// link-local addresses of IPv6, which mean nothing to other machines without an interface of
/// theirs.
std::vector<NetworkInterface> network_interfaces();

/// The interface on which this machine reaches `host`, a name or a numeric address, with this
/// machine's own address there: that of the route, whatever other interfaces are called. Nothing is
/// sent but a question for the name. Throws Error{unavailable} if there is no route, or if it does
/// not leave this machine.
NetworkInterface interface_towards(const std::string& host);

/// The interface of this name, or the one that has this numeric address. An interface that is given
/// by its name comes with its first address, of IPv4 if it has one. Throws Error{unavailable} with
/// those that exist if there is none, it is down or it has no address.
NetworkInterface find_interface(const std::string& name_or_address);

/// Whether a numeric address is of a network that the internet does not route to: private (RFC
/// 1918, RFC 4193), shared by a provider's customers (RFC 6598), link-local or loopback. False for
/// a text that is no address.
bool is_private_address(const std::string& address);

/// TCP ports from the first to the last.
struct PortRange {
  int first = 0;
  int last = 0;
};
/// The range of a text like "29600-29700"; none if it is no range within 1 to 65535.
std::optional<PortRange> parse_ports(const std::string& text);
/// Whether a socket can listen on the TCP port now, at this numeric address of the machine.
bool is_free_port(int port, const std::string& address);

}  // namespace troupe::transport

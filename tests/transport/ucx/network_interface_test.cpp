#include "transport/ucx/network_interface.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/support/expect_error.h"

namespace troupe::transport {

BOOST_AUTO_TEST_SUITE(network_interface_test)

using test::expect_error;

BOOST_AUTO_TEST_CASE(every_machine_has_a_loopback_interface) {
  const auto all = network_interfaces();
  const auto found = std::ranges::find(all, "127.0.0.1", &NetworkInterface::address);
  BOOST_REQUIRE((found != all.end()));
  BOOST_TEST((find_interface(found->name) == *found));
  BOOST_TEST((find_interface("127.0.0.1") == *found));
  BOOST_TEST(!found->is_ipv6());
}

BOOST_AUTO_TEST_CASE(an_address_chooses_its_interface_and_its_family) {
  for (const NetworkInterface& one : network_interfaces())
    BOOST_TEST(find_interface(one.address).address == one.address);
}

BOOST_AUTO_TEST_CASE(an_interface_that_does_not_exist_is_refused_with_those_that_do) {
  for (const char* name : {"no_such_card", "", "192.0.2.77"})
    expect_error(ErrorKind::unavailable,
                 {"there is no network interface \"" + std::string(name) + "\"", "127.0.0.1"},
                 [&] { find_interface(name); });
}

BOOST_AUTO_TEST_CASE(the_route_to_a_machine_s_own_address_is_that_of_the_address) {
  for (const NetworkInterface& one : network_interfaces())
    if (one.name != find_interface("127.0.0.1").name)
      BOOST_TEST((interface_towards(one.address) == one));
}

BOOST_AUTO_TEST_CASE(a_route_that_stays_on_this_machine_leads_to_no_other_host) {
  for (const char* address : {"127.0.0.1", "127.0.1.1", "localhost"})
    expect_error(ErrorKind::unavailable, {address, "stays on this machine"},
                 [&] { interface_towards(address); });
}

BOOST_AUTO_TEST_CASE(ports_are_a_range) {
  const auto range = parse_ports("29600-29700");
  BOOST_REQUIRE(range.has_value());
  BOOST_TEST(range->first == 29600);
  BOOST_TEST(range->last == 29700);
  for (const char* text : {"", "29600", "2-1", "0-5", "1-65536", "-1-5", "a-b", "1-2-3", "1-"})
    BOOST_TEST(!parse_ports(text).has_value(), text);
}

BOOST_AUTO_TEST_CASE(a_host_without_an_address_is_named) {
  expect_error(ErrorKind::unavailable, {"no address is known for no-such-host.invalid"},
               [] { interface_towards("no-such-host.invalid"); });
}

BOOST_AUTO_TEST_CASE(addresses_that_the_internet_does_not_route_to_are_private) {
  for (const char* address :
       {"10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.127.255.1",
        "169.254.1.1", "127.0.0.1", "::1", "fd00::1", "fc00::1", "fe80::1%eth0", "::ffff:10.0.0.1"})
    BOOST_TEST(is_private_address(address), address);
  for (const char* address : {"11.0.0.1", "172.15.0.1", "172.32.0.1", "192.169.0.1", "100.128.0.1",
                              "203.0.113.9", "2001:db8::1", "::ffff:8.8.8.8", "h0", ""})
    BOOST_TEST(!is_private_address(address), address);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::transport

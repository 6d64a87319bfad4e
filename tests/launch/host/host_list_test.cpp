#include "launch/host/host_list.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/expect_error.h"

namespace troupe::launch {

BOOST_AUTO_TEST_SUITE(host_list_test)

namespace {

std::string text_of(const std::vector<actors::Host>& hosts) {
  std::string text;
  for (const actors::Host& host : hosts)
    text += (text.empty() ? "" : " ") + host.name + "=" + std::to_string(host.slots);
  return text;
}

std::string listed(const std::vector<std::string>& lists) {
  return text_of(parse_hosts(lists, "--hosts", ErrorKind::usage));
}

void expect_refused(const std::string& list, const std::vector<std::string>& words) {
  BOOST_TEST_CONTEXT(list) {
    std::vector<std::string> all = words;
    all.push_back("--hosts: ");
    test::expect_error(ErrorKind::usage, all, [&] { listed({list}); });
  }
}

std::string filed(const std::string& text) {
  return text_of(parse_hostfile(text, "hosts"));
}

void expect_file_refused(const std::string& text, const std::vector<std::string>& words) {
  BOOST_TEST_CONTEXT(text) {
    test::expect_error(ErrorKind::data, words, [&] { filed(text); });
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(hosts_with_and_without_slots) {
  BOOST_TEST(listed({"a:2,b"}) == "a=2 b=1");
  BOOST_TEST(listed({"n[01-03]:8", "big:32"}) == "n01=8 n02=8 n03=8 big=32");
  BOOST_TEST(listed({"10.0.0.[1-2]:4"}) == "10.0.0.1=4 10.0.0.2=4");
}

BOOST_AUTO_TEST_CASE(nodelists_of_slurm) {
  BOOST_TEST(listed({"h[0-2,5]"}) == "h0=1 h1=1 h2=1 h5=1");
  BOOST_TEST(listed({"r[1-2]n[08-10],login"}) ==
             "r1n08=1 r1n09=1 r1n10=1 r2n08=1 r2n09=1 r2n10=1 login=1");
  BOOST_TEST(listed({"n[098-101]-ib"}) == "n098-ib=1 n099-ib=1 n100-ib=1 n101-ib=1");
  BOOST_TEST(listed({"n[0-1,007]"}) == "n0=1 n1=1 n007=1");
}

BOOST_AUTO_TEST_CASE(addresses_of_ipv6_are_in_brackets) {
  BOOST_TEST(listed({"[fe80::1]:4,[::1],[fe80::1%eth0]"}) == "fe80::1=4 ::1=1 fe80::1%eth0=1");
  expect_refused("fe80::1", {"'fe80::1'", "in brackets"});
  expect_refused("[fe80::1%]", {"[fe80::1%]"});
  expect_refused("[fe80::g]:2", {"[fe80::g]"});
  expect_refused(std::string("[fe80::") + '\0' + "]:2", {"a zero byte follows 'fe80::'"});
  expect_refused("[fe80::1]x:2", {"[fe80::1]x"});
}

BOOST_AUTO_TEST_CASE(a_list_that_is_wrong_is_refused_by_host_and_word) {
  expect_refused("h1:zero", {"h1: 'zero'", "from 1 to 4096"});
  expect_refused("h1:0", {"h1: '0'"});
  expect_refused("h1:-1", {"h1: '-1'"});
  expect_refused("h1:", {"h1: ''"});
  expect_refused("h1:99999999999", {"h1: '99999999999'"});
  expect_refused("a,b,a:2", {"host a is named twice"});
  expect_refused("n[1-3],n2", {"host n2 is named twice"});
  expect_refused("h*1", {"'h*1'", "'*'"});
  expect_refused("a, b", {"' b'", "' '"});
  expect_refused("", {"''", "no host name"});
  expect_refused("a,", {"''"});
  expect_refused("-oProxyCommand", {"'-oProxyCommand'"});
  expect_refused("n[3-1]", {"'n[3-1]': '3-1'"});
  expect_refused("n[1-x]", {"'1-x'"});
  expect_refused("n[]", {"''"});
  expect_refused("n[1:2]", {"'n[1:2]': '1:2'"});
  expect_refused("a:2[1]", {"'a:2[1]'", "':'"});
  expect_refused("n[1-2", {"'n[1-2'", "pairs"});
  expect_refused("n1]", {"pairs"});
  expect_refused("n[[1]]", {"pairs"});
  expect_refused("n[0-999999999]", {"more than 65536 hosts"});
  expect_refused("n[0-999][0-999]", {"more than 65536 hosts"});
  expect_refused("a[0-40000],b[0-40000]", {"more than 65536 hosts"});
  test::expect_error(ErrorKind::manifest, {"key: there is no host"},
                     [] { parse_hosts({}, "key", ErrorKind::manifest); });
}

BOOST_AUTO_TEST_CASE(hostfiles) {
  BOOST_TEST(filed("h0:2\nh1\n") == "h0=2 h1=1");
  BOOST_TEST(filed("# ours\n\n  h0 slots=2 # two\r\nh1\tslots=4 max_slots=8\nh2 max-slots=3") ==
             "h0=2 h1=4 h2=1");
  BOOST_TEST(filed("\xef\xbb\xbfh0 slots = 2\r\nh1 slots= 4 max_slots =8\r\n") == "h0=2 h1=4");
  BOOST_TEST(filed("n[1-2] slots=3\n[fd00::7]:2\n") == "n1=3 n2=3 fd00::7=2");
}

BOOST_AUTO_TEST_CASE(a_hostfile_that_is_wrong_is_refused_by_line) {
  expect_file_refused("h0:1\nh1:zero\n", {"hosts:2: h1: 'zero'"});
  expect_file_refused("h0:1\n# other\nh0:1\n",
                      {"hosts:3: host h0 is named twice, first at hosts:1"});
  expect_file_refused("h0 slots=", {"hosts:1: h0: ''"});
  expect_file_refused("h0 slots", {"hosts:1: h0: ''"});
  expect_file_refused("h0 slots=2 slots=2", {"hosts:1: h0", "twice"});
  expect_file_refused("h0:2 slots=2", {"hosts:1: h0", "twice"});
  expect_file_refused("h0 gpus=2", {"hosts:1: h0: 'gpus=2' is unknown", "slots=2"});
  expect_file_refused("h0 2", {"hosts:1: h0: '2' is unknown"});
  expect_file_refused("", {"hosts: there is no host"});
  expect_file_refused("# none\n\n", {"hosts: there is no host"});
  test::expect_error(ErrorKind::data, {"/nowhere/hosts"}, [] { read_hostfile("/nowhere/hosts"); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::launch

#include "launch/hosts/hosts_record.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(hosts_record_test)

using launch::HostsPlan;
using launch::HostsRecord;

namespace {

std::string write(const TempDir& dir, const std::string& text) {
  const std::string file = dir.write("hosts.json", text);
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  return file;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_record_is_read_as_it_was_written) {
  const TempDir dir;
  const HostsRecord record{.start = HostsPlan::Start::ssh,
                           .count = 3,
                           .named = {{.name = "h0", .slots = 2}, {.name = "fe80::1", .slots = 1}},
                           .secret = "s3cret",
                           .agents = {{.host = "fe80::1", .address = "fe80::1", .port = 29600}}};
  const auto read = launch::read_hosts_record(write(dir, to_text(record)));
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST((read->start == record.start && read->count == 3 && read->secret == "s3cret"));
  BOOST_REQUIRE((read->named.size() == 2u && read->agents.size() == 1u));
  BOOST_TEST((read->named[0].name == "h0" && read->named[0].slots == 2));
  BOOST_TEST((read->agents[0].host == "fe80::1" && read->agents[0].port == 29600));
}

BOOST_AUTO_TEST_CASE(what_is_no_record_is_refused) {
  const TempDir dir;
  BOOST_TEST(!launch::read_hosts_record(dir / "missing").has_value());
  for (const char* text : {"", "[]", R"({"start": "ssh"})"}) {
    const std::string file = write(dir, text);
    expect_error(ErrorKind::data, {file}, [&] { launch::read_hosts_record(file); });
    std::filesystem::remove(file);
  }
  const std::string open = dir.write("open.json", to_text(HostsRecord{}));
  std::filesystem::permissions(open, std::filesystem::perms::all);
  expect_error(ErrorKind::data, {open, "chmod 600"}, [&] { launch::read_hosts_record(open); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

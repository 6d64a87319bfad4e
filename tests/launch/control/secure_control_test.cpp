#include <boost/test/unit_test.hpp>
#include <memory>
#include <utility>
#include <variant>

#include "actors/security/credentials.h"
#include "launch/control/control_client.h"
#include "launch/manifest/toml/manifest.h"
#include "launch/run/run_directory.h"
#include "tests/launch/control/served_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

// The control socket as commands on other hosts reach it; a second address of this machine stands
// for another host's way.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(secure_control_test)

using launch::ControlAddress;
using launch::ControlClient;

BOOST_AUTO_TEST_CASE(commands_of_other_hosts_are_served_over_tls) {
  const actors::Authority authority;
  for (const char* address : {"127.0.0.2", "::1"}) {
    try {
      actors::listen_on(address, {});
    } catch (const Error&) {
      continue;  // this machine has no IPv6
    }
    Served served({}, std::string(50'000, 'x'), std::pair(address, &authority));
    served.check_alive();
    ControlAddress elsewhere = served.address();
    BOOST_TEST(elsewhere.on == actors::name_of_this_host());
    // The same file, read on another host: nothing is where the launcher's loopback is.
    elsewhere.on = "another host";
    elsewhere.port = 1;
    served.check_alive(elsewhere);
    elsewhere.on = actors::name_of_this_host();  // of two hosts that have the same name
    served.check_alive(elsewhere);
    ControlClient stop(elsewhere, "stop");
    BOOST_TEST(stop.receive(kLong).value().at("accepted") == true);
    ControlClient reader(elsewhere, "attach", {{"kinds", "note"}, {"credit", 1000}});
    BOOST_TEST(reader.receive(kLong).value().contains("attached"));
    const std::string note(20'000, 'n');
    for (int i = 0; i < 5; ++i) served.hub.publish({.body = actors::Note{.text = note}});
    std::size_t seen = 0;
    while (seen < 5) seen += reader.receive(kLong).value().at("events").size();
    BOOST_TEST(seen == 5u);
    served.server.finish({{"code", 0}});
    BOOST_TEST(stop.receive(kLong).value().at("ended").at("code") == 0);
  }
}

BOOST_AUTO_TEST_CASE(only_commands_of_the_run_are_let_in_from_other_hosts) {
  const actors::Authority authority, other;
  Served served({}, "run", std::pair("127.0.0.2", &authority));
  ControlAddress elsewhere = served.address();
  elsewhere.on = "another host";
  const auto show = [&](const actors::Credentials& credentials) {
    ControlAddress address = elsewhere;
    address.credentials = to_text(credentials);
    return ControlClient(address, "status").receive(kLong);
  };
  const auto refused = [&](actors::Role role) {
    try {
      return !show(authority.issue(role, "some")).has_value();
    } catch (const Error&) {
      return true;  // before the request was sent
    }
  };
  BOOST_TEST(refused(actors::Role::host));
  BOOST_TEST(refused(actors::Role::director));
  expect_error(ErrorKind::unavailable, {"127.0.0.2", "certificate"},
               [&] { show(other.issue(actors::Role::command, "c")); });
  RawConnection plain(elsewhere.secure_port, "127.0.0.2");
  plain.write(launch::to_frame({{"token", served.server.token()}, {"request", "status"}}));
  BOOST_TEST(plain.read().find("step") == std::string::npos);
  RawConnection silent(elsewhere.secure_port, "127.0.0.2");
  served.check_alive(elsewhere);
  BOOST_TEST(served.server.refused() == 4u);
  elsewhere.token = "wrong";
  BOOST_TEST(!ControlClient(elsewhere, "status").receive(kLong).has_value());
}

BOOST_AUTO_TEST_CASE(a_launcher_on_another_host_is_asked_though_its_lock_is_not_seen) {
  const TempDir run;
  run.write(launch::kManifestFile, "");
  run.write(launch::kLockFile, "");
  const actors::Authority authority;
  {
    Served served({}, "run", std::pair("127.0.0.2", &authority));
    ControlAddress elsewhere = served.address();
    run.write(launch::kControlFile, nlohmann::json(elsewhere).dump());
    BOOST_TEST(std::holds_alternative<launch::Ending>(launch::ask_run(run.path(), "status")));
    elsewhere.on = "another host";
    run.write(launch::kControlFile, nlohmann::json(elsewhere).dump());
    const auto asked = launch::ask_run(run.path(), "status");
    const auto& client = std::get<std::unique_ptr<ControlClient>>(asked);
    BOOST_TEST(client->receive(kLong).value().at("step") == 7);
  }
  BOOST_TEST(std::holds_alternative<launch::Ending>(launch::ask_run(run.path(), "status")));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

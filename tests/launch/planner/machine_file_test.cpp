#include "launch/planner/machine_file.h"

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "launch/planner/machine_keys.h"
#include "tests/support/expect_error.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(machine_file_test)

namespace {

using launch::parse_machine;

void refused(const std::string& text, const std::vector<std::string>& words) {
  expect_error(ErrorKind::manifest, words, [&] { parse_machine(text, "here.toml"); });
}

const std::string kBase = "[machine]\nbase = \"a100-80g\"\n";

}  // namespace

BOOST_AUTO_TEST_CASE(a_preset_has_every_number) {
  for (const auto& preset : schedules::machine_presets()) {
    schedules::MachineModel model = launch::describe_machine(std::string(preset.name)).model;
    for (const auto& key : launch::machine_keys())
      BOOST_TEST((key.may_be_zero || key.of(model) > 0), preset.name << " " << key.name);
  }
}

BOOST_AUTO_TEST_CASE(a_file_changes_what_it_says_of_its_base) {
  const auto machine = parse_machine(kBase +
                                         "[network]\ngb_per_s = 12.5\n[software]\nattention = "
                                         "\"unfused\"\nsends = \"blocking\"\nsend_us = 0\n"
                                         "overlap_shards = false\n",
                                     "here.toml");
  const auto& base = *schedules::find_machine_preset("a100-80g");
  BOOST_TEST(machine.model.network.gb_per_s == 12.5);
  BOOST_TEST(machine.model.network.share == base.network.share);
  BOOST_TEST(machine.model.device.units == 108);
  BOOST_TEST((machine.model.software.attention == schedules::MachineModel::Attention::unfused));
  BOOST_TEST((machine.model.software.sends == schedules::Sends::blocking));
  BOOST_TEST(!machine.model.software.overlap_shards);
}

BOOST_AUTO_TEST_CASE(what_a_file_must_not_hold_is_refused_with_the_nearest) {
  refused(kBase + "[netwrok]\ngb_per_s = 3\n", {"here.toml:3", "netwrok", "[network]"});
  refused(kBase + "[network]\ngbps = 3\n", {"here.toml:4", "network.gbps", "'network.gb_per_s'"});
  refused(kBase + "[network]\ngb_per_s = 0\n", {"network.gb_per_s = 0", "above 0"});
  refused(kBase + "[network]\ngb_per_s = -1\n", {"network.gb_per_s = -1"});
  refused(kBase + "[network]\ngb_per_s = nan\n", {"network.gb_per_s"});
  refused(kBase + "[network]\ngb_per_s = \"3\"\n", {"network.gb_per_s must be a number"});
  refused(kBase + "[software]\nsends = \"blocked\"\n", {"'blocked'", "'blocking'", "'overlapped'"});
  refused("[machine]\nbase = \"a100-81g\"\n", {"a100-81g", "'a100-80g'", "'h100-sxm'"});
  refused("[host]\ndevices = 4\n", {"device.bfloat16_tflops is missing", "machine.base"});
  refused(kBase + "[products]\nm = [1]\nn = [1, 2]\nk = [1]\ngflops = [1]\n", {"products.n"});
  refused("[machine\n", {"here.toml:1"});
}

BOOST_AUTO_TEST_CASE(a_name_that_is_no_machine_is_refused) {
  expect_error(ErrorKind::usage, {"h100-sxn", "'h100-sxm'"},
               [] { launch::describe_machine("h100-sxn"); });
  expect_error(ErrorKind::data, {"missing.toml"}, [] { launch::describe_machine("missing.toml"); });
}

BOOST_AUTO_TEST_CASE(a_description_can_be_written_and_read) {
  launch::MachineDescription machine = launch::describe_machine("l40s");
  machine.host = "h \"0\"";
  machine.model.device.kind = schedules::MachineModel::Kind::cpu;
  machine.model.software.sends = schedules::Sends::blocking;
  machine.model.products = {{.m = 128, .n = 256, .k = 512, .rate = 12.5},
                            {.m = 1, .n = 2, .k = 3, .rate = 4}};
  const std::string text = to_toml(machine);
  const auto again = parse_machine(text, "again.toml");
  BOOST_TEST(to_toml(again) == text);
  BOOST_TEST(again.host == machine.host);
  BOOST_TEST(again.model.products[1].rate == 4);
  BOOST_TEST((again.model.device.kind == schedules::MachineModel::Kind::cpu));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

#include <boost/test/unit_test.hpp>

#include "launch/manifest/checks/check.h"
#include "launch/manifest/inputs/placement.h"
#include "launch/manifest/resolve/run_spec.h"
#include "schedules/analysis/validate.h"
#include "schedules/generators/generators.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

// Which schedules, plans and layouts a manifest may ask for.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(check_schedule_test)

BOOST_AUTO_TEST_CASE(a_layout_holds_every_layer_in_as_many_chunks_as_there_are) {
  const std::string layers = "model.num_hidden_layers=6";
  for (const std::string split : {"even", "ends", "parameters", "4,2", "Et*4|ttL"}) {
    const auto m = checked(kSmallManifest, {layers, "mesh.pp=2", "mesh.layout=\"" + split + "\""});
    BOOST_TEST(launch::to_run_spec(m).layout == split);
  }
  checked(kSmallManifest, {layers, "mesh.pp=2", "schedule.kind=interleaved", "schedule.chunks=2",
                           "mesh.layout=\"1,1,3,1\""});
  checked(kSmallManifest, {layers, "mesh.pp=8", "mesh.layout=\"E|t|t|t||tt|t|L\""});
  refused({layers, "mesh.pp=8", "mesh.layout=\"ends\""}, {"8 chunks need a layer each"});
  refused({layers, "mesh.pp=8", "mesh.layout=\"E|x\""}, {"'x' at column 3"});
  refused({layers, "mesh.pp=2", "mesh.layout=\"4,x\""}, {"mesh.layout = \"4,x\"", "3,2,1"});
  refused({layers, "mesh.pp=2", "mesh.layout=\"4,3\""}, {"7 layers", "has 6", "nearest: 4,2"});
  refused({layers, "mesh.pp=2", "mesh.layout=\"6,-1\""}, {"chunk 1 -1 layers", "nearest: 6,0"});
  refused({layers, "mesh.pp=2", "mesh.layout=\"Et*4|tL\""}, {"layer 5 is lost", "Et*4|t*2L"});
  refused({layers, "mesh.pp=3", "mesh.layout=\"4,2\""}, {"2 chunks instead of 3", "4,1,1"});
}

BOOST_AUTO_TEST_CASE(schedules_are_checked_before_use) {
  refused({"schedule.kind=1f2b"}, {"'1f1b'", "'gpipe'", "'interleaved'", "'csv'"});
  refused({"schedule.kind=forward-only"}, {"forward-only", "'1f1b'"});
  refused({"schedule.csv=plan.csv"}, {"schedule.csv", "kind = \"csv\""});
  refused({"schedule.kind=csv"}, {"schedule.csv"});
  refused({"schedule.kind=csv", "schedule.csv=/nowhere/plan.csv"}, {"/nowhere/plan.csv"},
          ErrorKind::data);
  refused({"schedule.kind=1f1b", "schedule.chunks=2"}, {"--set schedule.chunks=2:", "chunks"});
  refused({"schedule.kind=dualpipe", "mesh.pp=3", "batch.micro=1"},
          {"even number of stages", "stages = 3", "is 4"});
  refused({"schedule.kind=chimera", "mesh.pp=8", "batch.micro=1"},
          {"8 * 2 = 16", "num_hidden_layers = 6 in 2 copies", "at most pp = 6"});
}

BOOST_AUTO_TEST_CASE(every_training_schedule_can_be_asked_for) {
  for (const auto& generator : schedules::generators()) {
    if (generator.purpose != schedules::Purpose::training) continue;
    const auto m = checked(kSmallManifest, {"schedule.kind=" + std::string(generator.name),
                                            "mesh.pp=2", "batch.micro=1"});
    BOOST_TEST(m->schedule.chunks == generator.chunks);
    const auto spec = launch::to_run_spec(m);
    const auto plan = actors::make_plan(spec);
    BOOST_TEST(!schedules::validate(plan, schedules::Purpose::training).has_value());
    BOOST_TEST(!schedules::validate(actors::make_eval_plan(spec), schedules::Purpose::forward_only)
                    .has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_plan_of_ones_own_is_checked_against_the_mesh) {
  const TempDir dir;
  const auto with = [&](const std::string& csv, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"schedule.kind=csv", "schedule.csv=" + dir.write("plan.csv", csv),
                             "mesh.pp=2", "batch.micro=8"});
    return more;
  };
  const std::string good = "0F0,0F1,,0B0,0B1\n1F0,1B0,1F1,1B1";
  const auto m = checked(kSmallManifest, with(good));
  BOOST_TEST(m->schedule.csv == good + "\n");
  BOOST_TEST(m->schedule.chunks == 1);
  // The resolved text holds the plan itself, so that no file is read again.
  std::filesystem::remove(dir / "plan.csv");
  const auto spec = launch::parse_resolved(m.to_toml());
  BOOST_TEST(spec.schedule.csv == good + "\n");
  BOOST_TEST(actors::make_plan(spec).num_ranks() == 2);

  refused(with("0F0,0F1,0B0,0B1\n1F0,1X0\n"), {(dir / "plan.csv").string() + ":2:5:"});
  refused(with("0F0,0F1,0B0,0B1\n"), {"1 rank ", "mesh.pp = 2"});
  refused(with("0F0,0B0\n1F0,1B0\n"), {"1 microbatch ", "2"});
  refused(with("0F0,0F1,0B0,0B1\n1F0,1F1,1B0\n"), {"SCHED-", (dir / "plan.csv").string() + ":2:"});
  // A plan within the manifest has no lines of a file.
  refused({"schedule.kind=csv", "schedule.csv=\"\"\"\n0F0,0B0\n1B0,1F0\n\"\"\"", "mesh.pp=2",
           "batch.micro=16"},
          {"SCHED-5", "plan line 2"});
  refused(with(good, {"schedule.chunks=2"}), {"schedule.chunks = 2", "1 chunk "});
  refused(with("0F0,0F1,0B0,0B1\n\n"), {"schedule.csv"});
}

BOOST_AUTO_TEST_CASE(a_plan_may_give_one_stage_more_chunks_than_another) {
  const TempDir dir;
  const auto m =
      checked(kSmallManifest, {"schedule.kind=csv",
                               "schedule.csv=" + dir.write("p.csv", "0F0,2F0,2B0,0B0\n1F0,1B0\n"),
                               "mesh.pp=2", "batch.micro=16", "model.num_hidden_layers=3"});
  const auto spec = launch::to_run_spec(m);
  BOOST_TEST(actors::make_plan(spec).num_chunks() == 3);
  BOOST_TEST(actors::make_eval_plan(spec).num_chunks() == 3);
}

BOOST_AUTO_TEST_CASE(a_run_may_choose_its_schedule) {
  const auto m = checked(kSmallManifest, {"schedule.kind=auto", "mesh.pp=2", "batch.micro=1"});
  BOOST_TEST(m->schedule.chunks == 1);
  BOOST_TEST(
      !schedules::validate(actors::make_plan(launch::to_run_spec(m)), schedules::Purpose::training)
           .has_value());
  refused({"schedule.kind=auto", "schedule.chunks=2"}, {"1f1b has one chunk", "chunks = 2"});
  refused({"schedule.kind=outo"}, {"did you mean 'auto'"});
}

BOOST_AUTO_TEST_CASE(searched_schedules_are_made_for_costs) {
  const std::string costs = "schedule.costs=\"F=1:3,I=1,W=1:2,hop=0.5\"";
  const auto m = checked(kSmallManifest, {"schedule.kind=zb-1p", "mesh.pp=2", costs});
  const auto spec = launch::parse_resolved(m.to_toml());
  actors::RunSpec plain = spec;
  plain.schedule.costs.clear();
  BOOST_TEST((actors::make_plan(spec) != actors::make_plan(plain)));
  // Costs that auto measured stay beside any schedule that it chose.
  checked(kSmallManifest, {"schedule.kind=1f1b", "mesh.pp=2", costs});
  refused({"schedule.kind=zb-1p", "mesh.pp=3", costs}, {"2 chunks", "there are 3"});
  refused({"schedule.kind=zb-1p", "schedule.costs=F"}, {"schedule.costs: F= is no duration"});
}

BOOST_AUTO_TEST_CASE(gathers_cost_time_where_weights_are_divided) {
  const std::string gathers = "schedule.costs=\"F=1,I=1,W=1,gF=1,gB=1\"";
  const std::string divided = "data_parallel.sharding=optim_grads_params";
  refused({gathers}, {"schedule.costs", "gF", "'optim_grads_params'"});
  refused({"mesh.dp=2", divided, "schedule.costs=\"F=1,I=1,W=1,units=4\""},
          {"schedule.costs", "units", "data_parallel.prefetch"});
  const auto spec = [&](const std::string& prefetch) {
    return launch::to_run_spec(checked(
        kSmallManifest, {"mesh.dp=2", divided, gathers, "data_parallel.prefetch=" + prefetch}));
  };
  const schedules::Gathering gathering = costs_of(spec("2")).gathering;
  BOOST_TEST(gathering.units == spec("2").model.num_hidden_layers);
  BOOST_TEST(gathering.ahead == 2);
  BOOST_TEST(gathering.reshards);
  const auto expected = [&](const std::string& prefetch) {
    return launch::place(spec(prefetch)).expected->step;
  };
  BOOST_TEST(expected("0") > expected("1"));
}

BOOST_AUTO_TEST_CASE(a_plan_of_two_copies_has_them_on_mirrored_ranks) {
  const auto with = [](const std::string& csv, int ranks) {
    return std::vector<std::string>{"schedule.kind=csv", "schedule.csv=\"\"\"\n" + csv + "\n\"\"\"",
                                    "mesh.pp=" + std::to_string(ranks), "batch.micro=8"};
  };
  const auto m = checked(kSmallManifest, with("0F0,3F1,3B1,0B0\n1F0,2F1,1B0,2B1", 2));
  BOOST_TEST(actors::make_plan(launch::to_run_spec(m)).num_copies == 2);
  refused(with("0F0,2F1,2B1,0B0\n1F0,1B0,3F1,3B1", 2),
          {"chunk 0 is on rank 0", "chunk 2, on rank 0 instead of 1"});
  refused(with("0F0,1F1,1B1,0B0", 1), {"an even number p of ranks", "p = 1", "nearest: 2"});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

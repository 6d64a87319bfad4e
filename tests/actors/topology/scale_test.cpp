#include "actors/topology/scale.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/run_specs.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(scale_test)

namespace {

ClusterShape shape_of(const RunSpec& spec, const std::string& kind, int pp, int chunks) {
  RunSpec changed = spec;
  changed.mesh.pp = pp;
  changed.schedule = {.kind = kind, .chunks = chunks};
  return first_shape(changed);
}

ScaleRequest to_stages(int pp) {
  ScaleRequest request;
  request.pp = pp;
  return request;
}

ScaleRequest to_schedule(const std::string& kind) {
  ScaleRequest request;
  request.schedule = kind;
  return request;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_takes_on_two_copies_and_gives_them_up) {
  const RunSpec spec = test::small_run(2);
  const ClusterShape two = scaled(spec, first_shape(spec), to_schedule("dualpipe"));
  BOOST_TEST((two == shape_of(spec, "dualpipe", 2, 2)));
  BOOST_TEST(two.layout.copies() == 2);
  BOOST_TEST((scaled(spec, two, to_stages(4)) == shape_of(spec, "dualpipe", 4, 2)));
  BOOST_TEST((scaled(spec, two, to_schedule("1f1b")) == first_shape(spec)));
}

BOOST_AUTO_TEST_CASE(ranks_on_gpus_become_more_as_those_on_cpus) {
  RunSpec spec = test::small_run();
  spec.cluster.device.kind = tensor::DeviceKind::cuda;
  BOOST_TEST((scaled(spec, first_shape(spec), to_stages(2)) == shape_of(spec, "1f1b", 2, 1)));
}

BOOST_AUTO_TEST_CASE(an_ordered_schedule_has_its_own_chunks) {
  RunSpec spec = test::small_run(2);
  const ClusterShape plain = first_shape(spec);
  const ClusterShape looped = scaled(spec, plain, to_schedule("interleaved"));
  BOOST_TEST((looped == shape_of(spec, "interleaved", 2, 2)));
  BOOST_TEST(to_string(looped) == "pp 2 x dp 1, interleaved with 2 chunks a stage, layers 2,2,1,1");
  BOOST_TEST((scaled(spec, looped, to_schedule("1f1b")) == plain));
  // The chunks are those of the manifest if it names the schedule, or those of the split if that
  // needs others.
  spec.schedule = {.kind = "interleaved", .chunks = 3};
  BOOST_TEST((scaled(spec, plain, to_schedule("interleaved")) == first_shape(spec)));
  ScaleRequest split = to_schedule("interleaved");
  split.layout = "1,1,2,2";
  BOOST_TEST(scaled(spec, plain, split).schedule.chunks == 2);
  test::expect_error(
      ErrorKind::usage,
      {"--schedule interleaved: pp 4 with 2 chunks a stage: 8 chunks need", "at most --pp 3"}, [&] {
        const RunSpec four = test::small_run(4);
        scaled(four, first_shape(four), to_schedule("interleaved"));
      });
}

BOOST_AUTO_TEST_CASE(a_layout_stays_while_every_chunk_keeps_its_place) {
  RunSpec spec = test::small_run(2);
  spec.layout = "5,1";
  const ClusterShape uneven = first_shape(spec);
  BOOST_TEST(layers_of(uneven.layout) == (std::vector{5, 1}), boost::test_tools::per_element());
  BOOST_TEST((scaled(spec, uneven, to_schedule("gpipe")).layout == uneven.layout));
  const Layout three = scaled(spec, uneven, to_stages(3)).layout;
  BOOST_TEST(layers_of(three) == (std::vector{2, 2, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_layout_with_more_chunks_than_layers_stays_where_it_can) {
  RunSpec spec = test::small_run(8, 2);
  spec.layout = "E|t|t|t||tt|t|L";
  const ClusterShape wide = first_shape(spec);
  BOOST_TEST((scaled(spec, wide, to_schedule("gpipe")).layout == wide.layout));
  const auto one = shrunk(spec, wide, {3});
  BOOST_REQUIRE(one.has_value());
  BOOST_TEST((one->shape.layout == wide.layout));
  const auto narrow = shrunk(spec, one->shape, {3});
  BOOST_REQUIRE(narrow.has_value());
  BOOST_TEST(layers_of(narrow->shape.layout) == (std::vector{1, 1, 1, 1, 1, 1}),
             boost::test_tools::per_element());
  test::expect_error(ErrorKind::usage, {"7 chunks need a layer each", "at most --pp 6"},
                     [&] { scaled(spec, wide, to_stages(7)); });
}

BOOST_AUTO_TEST_CASE(two_copies_are_refused_where_they_have_no_plan) {
  const RunSpec spec = test::small_run(2);
  const ClusterShape two = shape_of(spec, "chimera", 2, 2);
  test::expect_error(ErrorKind::usage, {"--pp 3: ", "stages = 3", "is 4"},
                     [&] { scaled(spec, two, to_stages(3)); });
  test::expect_error(ErrorKind::usage, {"16 chunks", "6 in 2 copies", "at most --pp 6"},
                     [&] { scaled(spec, two, to_stages(8)); });
}

BOOST_AUTO_TEST_CASE(a_run_that_is_to_choose_its_schedule_may_change_its_mesh_before) {
  const RunSpec spec = test::small_run(2);
  const ClusterShape measured = scaled(spec, first_shape(spec), to_schedule("auto"));
  BOOST_TEST((measured == shape_of(spec, "auto", 2, 1)));
  BOOST_TEST((scaled(spec, measured, to_stages(3)) == shape_of(spec, "auto", 3, 1)));
  test::expect_error(ErrorKind::usage, {"forward-only", "1f1b", "auto"},
                     [&] { scaled(spec, measured, to_schedule("forward-only")); });
}

BOOST_AUTO_TEST_CASE(what_is_left_runs_the_same_schedule_or_else_1f1b) {
  const RunSpec spec = test::small_run(4);
  const auto four = shrunk(spec, shape_of(spec, "chimera", 4, 2), {1});
  BOOST_REQUIRE(four.has_value());
  BOOST_TEST((four->shape == shape_of(spec, "chimera", 2, 2)));
  const auto two = shrunk(spec, shape_of(spec, "chimera", 2, 2), {1});
  BOOST_REQUIRE(two.has_value());
  BOOST_TEST((two->shape == shape_of(spec, "1f1b", 1, 1)));
  BOOST_TEST(!shrunk(spec, shape_of(spec, "1f1b", 1, 1), {0}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors

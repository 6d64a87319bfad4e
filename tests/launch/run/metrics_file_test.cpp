#include "launch/run/metrics_file.h"

#include <boost/test/unit_test.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(metrics_file_test)

using nlohmann::json;

BOOST_AUTO_TEST_CASE(a_step_line_has_its_fields_and_all_digits) {
  const actors::StepReport::Measured measured{
      .stages = {{.replica = 0, .stage = 1, .busy_s = 0.25, .idle_s = 0.125}},
      .edges = {{.from = 0, .to = 1, .bytes = 1ull << 40}},
      .collectives = {{.group = "replicas of stage 1",
                       .operation = "all-reduce",
                       .count = 4,
                       .bytes = 4000,
                       .time_s = 0.5,
                       .exposed_s = 0.25}}};
  const actors::StepReport report{
      .step = 3,
      .loss = 5.0 / 3,
      .grad_norm = 0.1,
      .lr = 1e-3,
      .tokens = 1024,
      .first_sample = 32,
      .step_s = 0.5,
      .replicas = {std::make_shared<actors::StepReport::Measured>(measured)}};
  const std::string line = launch::metrics_line(report);
  BOOST_TEST(line.find('\n') == std::string::npos);
  BOOST_TEST(line.find("\"loss\":1.6666666666666667,") != std::string::npos, line);
  BOOST_TEST(line.find("\"grad_norm\":0.10000000000000001,") != std::string::npos, line);
  const json row = json::parse(line);
  BOOST_TEST((row["loss"].get<double>() == 5.0 / 3));
  BOOST_TEST(row["tokens_per_s"] == 2048.0);
  BOOST_TEST(row["stages"][0]["busy_s"] == 0.25);
  BOOST_TEST(row["edges"][0]["bytes"] == 1ull << 40);
  BOOST_TEST((row["collectives"] == json::parse(R"([{"group": "replicas of stage 1",
      "op": "all-reduce", "count": 4, "bytes": 4000, "time_s": 0.5, "exposed_s": 0.25}])")));
  std::vector<std::string> names;
  for (const auto& [name, value] : row.items()) names.push_back(name);
  const std::vector<std::string> expected{"collectives", "edges",  "first_sample", "grad_norm",
                                          "loss",        "lr",     "stages",       "step",
                                          "step_s",      "tokens", "tokens_per_s"};
  BOOST_TEST(names == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_model_with_experts_has_its_routers) {
  const actors::StepReport report{
      .aux_loss = 1.0 / 3,
      .routers = {{.layer = 2, .load = {0.5, 1.5}, .entropy = 0.25, .balance = 2.125, .z = 1.5}}};
  const std::string line = launch::metrics_line(report);
  BOOST_TEST(line.find("\"aux_loss\":0.33333333333333331,") != std::string::npos, line);
  BOOST_TEST((json::parse(line)["routers"] == json::parse(R"([{"layer": 2, "load": [0.5, 1.5],
      "entropy": 0.25, "balance": 2.125, "z": 1.5}])")));
}

BOOST_AUTO_TEST_CASE(a_group_has_one_row_of_the_slowest_member) {
  using Measured = actors::StepReport::Measured;
  const auto rows = [](double time_s, double exposed_s) {
    return std::vector<actors::StepReport::Collectives>{
        {.group = "a",
         .operation = "all-reduce",
         .count = 2,
         .bytes = 8,
         .time_s = time_s,
         .exposed_s = exposed_s},
        {.group = "b", .operation = "all-reduce", .count = 1, .bytes = 4}};
  };
  actors::StepReport report;
  report.replicas = {std::make_shared<Measured>(Measured{.collectives = rows(3, 1)}),
                     std::make_shared<Measured>(Measured{.collectives = rows(2, 1.5)})};
  const auto all = report.collectives();
  BOOST_REQUIRE(all.size() == 2u);
  BOOST_TEST(all[0].group == "a");
  BOOST_TEST(all[0].count == 2);
  BOOST_TEST(all[0].bytes == 8);
  BOOST_TEST(all[0].time_s == 3.0);
  BOOST_TEST(all[0].exposed_s == 1.5);
  BOOST_TEST(all[1].count == 1);
}

BOOST_AUTO_TEST_CASE(a_line_tells_of_gpus_where_there_are_some) {
  actors::StepReport report{.loss = 1, .grad_norm = 1, .step_s = 1};
  report.replicas.push_back(std::make_shared<actors::StepReport::Measured>(
      actors::StepReport::Measured{.stages = {{.stage = 0},
                                              {.stage = 1,
                                               .device_used_bytes = 5'000'000'000,
                                               .device_total_bytes = 8'000'000'000}},
                                   .edges = {}}));
  const json row = json::parse(launch::metrics_line(report, 0.5));
  BOOST_TEST(row["mfu"] == 0.5);
  BOOST_TEST(!row["stages"][0].contains("device_used_bytes"));
  BOOST_TEST(row["stages"][1]["device_used_bytes"] == 5'000'000'000);
  BOOST_TEST(row["stages"][1]["device_total_bytes"] == 8'000'000'000);
  BOOST_TEST(!json::parse(launch::metrics_line(report)).contains("mfu"));
}

BOOST_AUTO_TEST_CASE(a_line_tells_of_the_sources_of_a_mixture) {
  const actors::StepReport report{
      .loss = 1,
      .sources = {{.name = "a \"b\"", .loss = 0.1, .tokens = 48},
                  {.name = "c", .loss = std::numeric_limits<double>::quiet_NaN()}}};
  const std::string line = launch::metrics_line(report);
  BOOST_TEST(line.find("\"loss\":0.10000000000000001,") != std::string::npos, line);
  const json sources = json::parse(line)["sources"];
  BOOST_REQUIRE(sources.size() == 2u);
  BOOST_TEST(sources[0] == json({{"name", "a \"b\""}, {"loss", 0.1}, {"tokens", 48}}));
  BOOST_TEST(sources[1] == json({{"name", "c"}, {"loss", nullptr}, {"tokens", 0}}));
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_is_null) {
  const json row = json::parse(launch::metrics_line(
      actors::StepReport{.loss = std::numeric_limits<double>::quiet_NaN(),
                         .grad_norm = std::numeric_limits<double>::infinity()}));
  BOOST_TEST(row["loss"].is_null());
  BOOST_TEST(row["grad_norm"].is_null());
  BOOST_TEST(launch::metrics_line(actors::EvalReport{.step = 4, .loss = 2.5}) ==
             R"({"step":4,"eval_loss":2.5})");
  BOOST_TEST(launch::metrics_line(actors::EvalReport{
                 .step = 4, .loss = 0.1, .sets = {{.name = "a \"b\"", .loss = 0.1}, {"c", NAN}}}) ==
             R"({"step":4,"eval_loss":0.10000000000000001,"sets":[{"name":"a \"b\"",)"
             R"("loss":0.10000000000000001},{"name":"c","loss":null}]})");
}

BOOST_AUTO_TEST_CASE(lines_are_appended_to_what_is_there) {
  const TempDir dir;
  const auto path = dir / "metrics.jsonl";
  launch::MetricsFile(path).append("a");
  launch::MetricsFile again(path);
  again.append("b");
  BOOST_TEST(content_of(path) == "a\nb\n");  // not closed: every line is written at once
  expect_error(ErrorKind::data, {(dir / "no/metrics.jsonl").string()},
               [&] { launch::MetricsFile(dir / "no/metrics.jsonl"); });
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_told) {
  launch::MetricsFile full("/dev/full");
  const std::string trouble = full.append("line");
  BOOST_TEST(trouble.find("/dev/full") != std::string::npos, trouble);
  BOOST_TEST(trouble.find("No space left") != std::string::npos, trouble);
}

BOOST_AUTO_TEST_CASE(lines_wait_until_a_full_disk_has_room_again) {
  const TempDir dir;
  const auto path = dir / "metrics.jsonl";
  launch::MetricsFile file(path);
  std::string all;
  const auto append = [&](int i) {
    all += "line " + std::to_string(i) + "\n";
    return file.append("line " + std::to_string(i));
  };
  {
    const FileSizeLimit limit(20);  // within the third line
    for (int i = 0; i < 2; ++i) BOOST_TEST(append(i) == "");
    const std::string whole = all;
    for (int i = 2; i < 5; ++i) BOOST_TEST(append(i) != "");
    BOOST_TEST(content_of(path) == whole);
  }
  BOOST_TEST(append(5) == "");
  BOOST_TEST(content_of(path) == all);
}

BOOST_AUTO_TEST_CASE(cutting_back_keeps_steps_up_to_the_checkpoint_once) {
  const TempDir dir;
  const std::string one = R"({"step":1,"loss":3})", two = R"({"step":2,"loss":2})",
                    eval = R"({"step":2,"eval_loss":9})";
  const std::string lines = one + "\n" + two + "\n" + eval + "\n";
  const auto cut = [&](const std::string& content, std::int64_t step) {
    const auto path = dir.write("metrics.jsonl", content);
    launch::cut_back_metrics(path, step);
    return content_of(path);
  };
  BOOST_TEST(cut(lines, 2) == lines);
  BOOST_TEST(cut(lines, 1) == one + "\n");
  BOOST_TEST(cut(lines, 0) == "");
  BOOST_TEST(cut(lines + R"({"step":3,"loss":1})" + "\n" + R"({"step":4,"lo)", 2) == lines);
  BOOST_TEST(cut(lines + R"({"step":2,"loss":2.)", 2) == lines);  // torn
  BOOST_TEST(cut(lines + lines, 2) == lines);                     // repeated
  BOOST_TEST(cut(one + "\nnonsense\n[1]\n{\"step\":\"2\"}\n" + two, 2) == one + "\n" + two + "\n");
  BOOST_TEST(cut("", 5) == "");
  launch::cut_back_metrics(dir / "missing", 3);
  BOOST_TEST(!std::filesystem::exists(dir / "missing"));
}

BOOST_AUTO_TEST_CASE(the_last_step_is_found_behind_a_torn_line) {
  const TempDir dir;
  const auto path =
      dir.write("metrics.jsonl", "{\"step\":1}\n{\"step\":2,\"loss\":1}\n{\"step\":3");
  BOOST_TEST(launch::metrics_end(path).step == 2);
  BOOST_TEST(launch::metrics_end(dir / "missing").step == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

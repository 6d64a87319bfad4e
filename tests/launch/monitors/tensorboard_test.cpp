#include "launch/monitors/tensorboard.h"

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <vector>

#include "launch/monitors/tfrecord.h"
#include "tests/support/event_files.h"
#include "tests/support/temp_dir.h"

// The written files are read back by an independent reader, made from the format's description.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(tensorboard_test)

namespace {

using namespace actors;

/// Returns the data of each record, after checking both of its checksums.
std::vector<std::string> records_of(std::string_view bytes) {
  return event_records(bytes, [](std::string_view part, std::uint64_t sum) {
    BOOST_TEST(sum == launch::masked_crc32c(part));
  });
}

/// The records of the only file in a folder.
std::vector<std::string> records_below(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  BOOST_REQUIRE(files.size() == 1u);
  BOOST_TEST(files[0].filename().string().starts_with("events.out.tfevents."));
  return records_of(content_of(files[0]));
}

struct Scalar {
  std::int64_t step = 0;
  float value = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_checksum_is_crc32c) {
  BOOST_TEST(launch::crc32c("123456789") == 0xe3069283u);
  BOOST_TEST(launch::crc32c("") == 0u);
  BOOST_TEST(launch::crc32c(std::string(32, '\0')) == 0x8a9136aau);  // RFC 3720, B.4
}

BOOST_AUTO_TEST_CASE(a_step_is_scalars_and_a_failure_is_text) {
  const TempDir dir;
  {
    Hub hub;
    const launch::TensorBoard board(hub, dir / "tb",
                                    [](const std::string& text) { BOOST_ERROR(text); });
    const StepReport::Measured measured{.stages = {{.busy_s = 3, .idle_s = 1}}};
    hub.publish({.step = 300,
                 .body = StepCommitted{
                     .report = {.step = 300,
                                .loss = 2.5,
                                .tokens = 100,
                                .step_s = 0.5,
                                .replicas = {std::make_shared<StepReport::Measured>(measured)}}}});
    hub.publish({.step = 300, .body = FailureDetected{.cause = "rank 1 was killed"}});
  }
  const auto records = records_below(dir / "tb");
  BOOST_REQUIRE(records.size() > 2u);
  BOOST_TEST(fields_of(records[0]).texts.at(3) == "brain.Event:2");
  std::map<std::string, Scalar> scalars;
  std::string text;
  const Fields session = fields_of(records[1]);
  BOOST_TEST(session.numbers.at(2) == 300u);
  BOOST_TEST(fields_of(session.texts.at(7)).numbers.at(1) == 1u);  // SessionLog.START
  for (std::size_t i = 2; i < records.size(); ++i) {
    const Fields event = fields_of(records[i]);
    BOOST_TEST(std::bit_cast<double>(event.numbers.at(1)) > 1e9);
    const Fields value = fields_of(fields_of(event.texts.at(5)).texts.at(1));
    if (value.numbers.contains(2))
      scalars[value.texts.at(1)] = {
          static_cast<std::int64_t>(event.numbers.at(2)),
          std::bit_cast<float>(static_cast<std::uint32_t>(value.numbers.at(2)))};
    else
      text = fields_of(value.texts.at(8)).texts.at(8);
  }
  BOOST_TEST(scalars.at("train/loss").value == 2.5f);
  BOOST_TEST(scalars.at("train/loss").step == 300);
  BOOST_TEST(scalars.at("train/tokens_per_s").value == 200.0f);
  BOOST_TEST(scalars.at("pipeline/busy_share/replica_0_stage_0").value == 0.75f);
  BOOST_TEST(text.find("rank 1 was killed") != std::string::npos);
}

namespace {

/// The parts of a tensor of six elements that two ranks have.
RunEvent part(std::uint32_t configuration, std::vector<float> values, std::int64_t whole = 6) {
  ParametersSeen::Row row{.tensor = "w", .whole = whole};
  row.part.add(tensor::Tensor{
      values.data(), tensor::DType::f32, {static_cast<std::int64_t>(values.size())}});
  return {.configuration = configuration, .step = 7, .body = ParametersSeen{.rows = {row}}};
}

/// The histograms in an event file, field by field of TensorFlow's HistogramProto.
std::vector<Fields> histograms_in(const std::filesystem::path& folder) {
  std::vector<Fields> histograms;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    for (const std::string& record : records_of(content_of(entry.path()))) {
      const Fields event = fields_of(record);
      if (!event.texts.contains(5)) continue;
      const Fields value = fields_of(fields_of(event.texts.at(5)).texts.at(1));
      if (!value.texts.contains(5)) continue;
      BOOST_TEST(value.texts.at(1) == "weights/w");
      BOOST_TEST(event.numbers.at(2) == 7u);
      histograms.push_back(fields_of(value.texts.at(5)));
    }
  return histograms;
}

}  // namespace

BOOST_AUTO_TEST_CASE(histograms_of_a_committed_step_are_each_tensor_once) {
  const TempDir dir;
  {
    Hub hub;
    const launch::TensorBoard board(hub, dir / "tb",
                                    [](const std::string& text) { BOOST_ERROR(text); });
    hub.publish(part(1, {9, 9, 9}));  // a step that was given up
    hub.publish(part(2, {1, -1, 0}));
    hub.publish(part(2, {1.5f, 1.6f, INFINITY}));
    hub.publish({.configuration = 2, .step = 7, .body = StepCommitted{.report = {.step = 7}}});
    hub.publish({.configuration = 2, .step = 8, .body = StepCommitted{.report = {.step = 8}}});
  }
  const auto found = histograms_in(dir / "tb");
  BOOST_REQUIRE(found.size() == 1u);
  const auto number = [&](int field) { return std::bit_cast<double>(found[0].numbers.at(field)); };
  BOOST_TEST(number(1) == -1.0);
  BOOST_TEST(number(2) == double{1.6f});
  BOOST_TEST(number(3) == 5.0);
  BOOST_TEST(std::abs(number(4) - 3.1) < 1e-6);
  // From -1.25 to -1, a gap, what is nearly 0, a gap, from 1 to 1.25, a gap, from 1.5 to 1.75.
  const double least = std::ldexp(1.0, -64);
  BOOST_TEST(doubles_of(found[0].texts.at(6)) ==
                 (std::vector<double>{-1, -least, least, 1, 1.25, 1.5, 1.75}),
             boost::test_tools::per_element());
  BOOST_TEST(doubles_of(found[0].texts.at(7)) == (std::vector<double>{1, 0, 1, 0, 1, 0, 2}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_histogram_that_lacks_a_part_is_told_and_not_written) {
  const TempDir dir;
  std::vector<std::string> complaints;
  {
    Hub hub;
    const launch::TensorBoard board(hub, dir / "tb",
                                    [&](const std::string& text) { complaints.push_back(text); });
    hub.publish(part(2, {1, -1, 0}));
    hub.publish({.configuration = 2, .step = 7, .body = StepCommitted{.report = {.step = 7}}});
  }
  BOOST_TEST(histograms_in(dir / "tb").empty());
  BOOST_REQUIRE(complaints.size() == 1u);
  BOOST_TEST(complaints[0].find("lacks 1 histogram of step 7") != std::string::npos);
}

/// Readers forget the steps of before, so that none has two values.
BOOST_AUTO_TEST_CASE(a_session_begins_where_steps_are_computed_again) {
  const TempDir dir;
  {
    Hub hub;
    const launch::TensorBoard board(hub, dir / "tb",
                                    [](const std::string& text) { BOOST_ERROR(text); });
    for (const int step : {5, 6, 7, 6, 7, 8})
      hub.publish({.step = step, .body = StepCommitted{.report = {.step = step}}});
  }
  std::vector<std::uint64_t> begins;
  for (const std::string& record : records_below(dir / "tb"))
    if (const Fields event = fields_of(record); event.texts.contains(7))
      begins.push_back(event.numbers.at(2));
  const std::vector<std::uint64_t> expected{5, 6};
  BOOST_TEST(begins == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_made_is_told_once) {
  const TempDir dir;
  write_file(dir / "file", "");
  std::vector<std::string> complaints;
  {
    Hub hub;
    const launch::TensorBoard board(hub, dir / "file" / "tb",
                                    [&](const std::string& text) { complaints.push_back(text); });
    for (int i = 0; i < 3; ++i) hub.publish({.step = i, .body = StepCommitted{}});
  }
  BOOST_REQUIRE(complaints.size() == 1u);
  BOOST_TEST(complaints[0].find("the run goes on") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

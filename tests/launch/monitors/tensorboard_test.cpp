#include "launch/monitors/tensorboard.h"

#include <bit>
#include <boost/test/unit_test.hpp>
#include <map>

#include "launch/monitors/tfrecord.h"
#include "tests/support/temp_dir.h"

// The written files are read back by an independent reader, made from the format's description.

namespace troupe::test {
namespace {

using namespace actors;

std::uint64_t little_endian(std::string_view bytes, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

/// Returns the data of each record, after checking both of its checksums.
std::vector<std::string> records_of(std::string_view bytes) {
  std::vector<std::string> records;
  while (!bytes.empty()) {
    BOOST_REQUIRE(bytes.size() >= 16u);
    const std::size_t length = little_endian(bytes, 8);
    BOOST_REQUIRE(bytes.size() >= 16 + length);
    BOOST_TEST(little_endian(bytes.substr(8), 4) == launch::masked_crc32c(bytes.substr(0, 8)));
    const std::string_view data = bytes.substr(12, length);
    BOOST_TEST(little_endian(bytes.substr(12 + length), 4) == launch::masked_crc32c(data));
    records.emplace_back(data);
    bytes.remove_prefix(16 + length);
  }
  return records;
}

/// A message's fields by number: the raw value of numbers, the bytes of everything else.
struct Fields {
  std::map<int, std::uint64_t> numbers;
  std::map<int, std::string> texts;
};
std::uint64_t varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    BOOST_REQUIRE(!bytes.empty());
    const auto byte = static_cast<unsigned char>(bytes[0]);
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
}
Fields fields_of(std::string_view bytes) {
  Fields fields;
  while (!bytes.empty()) {
    const std::uint64_t key = varint(bytes);
    const int number = static_cast<int>(key >> 3);
    const std::map<int, std::size_t> fixed{{1, 8}, {5, 4}};
    if ((key & 7) == 0) {
      fields.numbers[number] = varint(bytes);
    } else if ((key & 7) == 2) {
      const std::size_t length = varint(bytes);
      fields.texts[number] = bytes.substr(0, length);
      bytes.remove_prefix(length);
    } else {
      const std::size_t size = fixed.at(static_cast<int>(key & 7));
      fields.numbers[number] = little_endian(bytes, size);
      bytes.remove_prefix(size);
    }
  }
  return fields;
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
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "tb"))
    files.push_back(entry.path());
  BOOST_REQUIRE(files.size() == 1u);
  BOOST_TEST(files[0].filename().string().starts_with("events.out.tfevents."));
  const auto records = records_of(content_of(files[0]));
  BOOST_REQUIRE(records.size() > 2u);
  BOOST_TEST(fields_of(records[0]).texts.at(3) == "brain.Event:2");
  std::map<std::string, Scalar> scalars;
  std::string text;
  for (std::size_t i = 1; i < records.size(); ++i) {
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

}  // namespace troupe::test

#include "actors/worker/step/tap.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>

#include "actors/topology/program.h"
#include "stages/files/safetensors/safetensors.h"
#include "tests/support/run_specs.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_device.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(tap_test)

namespace {

tensor::Tensor tensor_of(std::vector<float>& values) {
  return {values.data(), tensor::DType::f32, {static_cast<std::int64_t>(values.size())}};
}

/// Values in the memory of a device.
class OnDevice {
 public:
  OnDevice(tensor::Device& device, const std::vector<float>& values)
      : size_(std::ssize(values)),
        memory_(device.allocate(values.size() * sizeof(float), tensor::MemoryKind::device)) {
    std::ranges::copy(values, test::opened(tensor()).as<float>());
  }
  tensor::Tensor tensor() const { return memory_.view(tensor::DType::f32, {size_}); }

 private:
  const std::int64_t size_;
  const tensor::Buffer memory_;
};

/// Rank 0 of two: it sends activations to rank 1.
struct Sender {
  RunSpec spec = test::small_run(2);
  ClusterShape shape = first_shape(spec);
  RankAssembly part = part_of(assemble(spec, shape), spec, shape, 0);
  std::unique_ptr<tensor::Device> device = test::make_test_device();
  transport::MessageKey key(int microbatch) const {
    return {.step = 6, .microbatch = microbatch, .chunk = 1};
  }
  RunStep order(std::vector<TapRequest> taps) const {
    return {.configuration = 3, .step = 6, .taps = std::move(taps)};
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_summary_counts_every_element_once) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> values{3, -4, 0, inf, std::nanf(""), 0x1p-60f, 0x1p60f, 0.75f};
  const TensorSummary all = summarise(tensor_of(values));
  BOOST_TEST(all.elements == 8);
  BOOST_TEST(all.not_finite == 2);
  BOOST_TEST(all.max == 0x1p60);
  BOOST_TEST(all.min == -4);
  BOOST_TEST(all.histogram[0] == 2u);   // 0 and 2^-60
  BOOST_TEST(all.histogram[40] == 1u);  // 0.75 in [2^-1, 2^0)
  BOOST_TEST(all.histogram[42] == 1u);  // 3 in [2^1, 2^2)
  BOOST_TEST(all.histogram[43] == 1u);  // 4 in [2^2, 2^3)
  BOOST_TEST(all.histogram[TensorSummary::kBins - 1] == 1u);
  std::vector<float> two{3, -4};
  BOOST_TEST(summarise(tensor_of(two)).norm == 5);
  BOOST_TEST(summarise(tensor_of(two)).mean == -0.5);
  std::vector<tensor::BFloat16> short_ones{tensor::to_bfloat16(3), tensor::to_bfloat16(-4)};
  BOOST_TEST(summarise({short_ones.data(), tensor::DType::bf16, {2}}).norm == 5);
}

BOOST_AUTO_TEST_CASE(a_tap_takes_what_fits_its_request_and_nothing_else) {
  const Sender sender;
  std::vector<float> values{1, 2};
  const auto tapped = [&](const TapRequest& request, int microbatch) {
    Tap tap(sender.order({request}), sender.part, 0, "", *sender.device);
    tap.look(sender.key(microbatch), OnDevice(*sender.device, values).tensor());
    return tap.take().size();
  };
  BOOST_TEST(tapped({.from = 0, .to = 1}, 0) == 1u);
  BOOST_TEST(tapped({.from = 0, .to = 1, .every = 3}, 0) == 1u);
  BOOST_TEST(tapped({.from = 0, .to = 1, .every = 4}, 0) == 0u);
  BOOST_TEST(tapped({.from = 1, .to = 0}, 0) == 0u);
  BOOST_TEST(tapped({.from = 0, .to = 1, .backward = true}, 0) == 0u);
  BOOST_TEST(tapped({.from = 0, .to = 1, .microbatch = 1}, 0) == 0u);
  BOOST_TEST(tapped({.from = 0, .to = 1, .microbatch = 1}, 1) == 1u);
  BOOST_TEST(tapped({.from = 0, .to = 1, .only_not_finite = true}, 0) == 0u);
  values[0] = std::nanf("");
  BOOST_TEST(tapped({.from = 0, .to = 1, .only_not_finite = true}, 0) == 1u);
}

BOOST_AUTO_TEST_CASE(a_tap_takes_no_more_samples_than_are_asked_for) {
  const Sender sender;
  const test::TempDir dir;
  const OnDevice values(*sender.device, {1, 2});
  const TapRequest two{.from = 0, .to = 1, .dump = true, .samples = 2};
  Tap tap(sender.order({two}), sender.part, 0, (dir.path() / "taps").string(), *sender.device);
  for (int microbatch = 0; microbatch < 8; ++microbatch)
    tap.look(sender.key(microbatch), values.tensor());
  BOOST_TEST(tap.take().size() == 2u);
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(dir.path() / "taps"), {}) == 2);
}

BOOST_AUTO_TEST_CASE(a_tensor_is_told_once_and_dumped_if_anybody_asked) {
  const Sender sender;
  const test::TempDir dir;
  const std::vector<float> values{1, 2, 3};
  const OnDevice sent(*sender.device, values);
  const TapRequest plain{.from = 0, .to = 1}, dumped{.from = 0, .to = 1, .dump = true};
  Tap tap(sender.order({plain, dumped}), sender.part, 0, (dir.path() / "taps").string(),
          *sender.device);
  tap.look(sender.key(2), sent.tensor());
  const auto all = tap.take();
  BOOST_TEST_REQUIRE(all.size() == 1u);
  BOOST_TEST(all[0].step == 6);
  BOOST_TEST(all[0].body.microbatch == 2);
  BOOST_TEST(all[0].body.error == "");
  const auto file = stages::SafetensorsFile::open(all[0].body.file);
  std::vector<float> read(3);
  const stages::TensorEntry& entry = file.tensors()[0];
  file.read(entry, entry.whole, std::as_writable_bytes(std::span(read)));
  BOOST_TEST(read == values, boost::test_tools::per_element());

  Tap nowhere(sender.order({dumped}), sender.part, 0, "/proc/none", *sender.device);
  nowhere.look(sender.key(0), sent.tensor());
  BOOST_TEST(nowhere.take().at(0).body.error.find("/proc/none") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors

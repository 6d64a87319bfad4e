#include <boost/test/unit_test.hpp>
#include <vector>

#include "stages/decoder/stage/optimizer.h"
#include "stages/decoder/stage/transformer_stage.h"
#include "tensor/values/random.h"
#include "tests/stages/data_parallel/small_stage.h"
#include "tests/support/fake_stage.h"
#include "tests/support/test_device.h"

// A stage whose replicas divide its state, each keeping the slice of the one before it too, against
// one that keeps all.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(twins_test)

namespace {

constexpr std::uint64_t kSeed = 5;

/// The stage after two updates with the gradients of all replicas.
std::unique_ptr<stages::Stage> trained(const stages::StageSpec& spec, tensor::Device& device) {
  auto stage = stages::make_transformer_stage(spec, device);
  stages::initialize(*stage, spec.model, kSeed, 1);
  for (const int step : {1, 2}) {
    for (const stages::Parameter& parameter : stage->parameters()) {
      const tensor::Random random(kSeed, parameter.name + std::to_string(step));
      const tensor::Tensor x = opened(parameter.gradient);
      for (std::int64_t i = 0; i < x.num_elements(); ++i)
        x.as<float>()[i] = static_cast<float>(random.normal(static_cast<std::uint64_t>(i)));
    }
    stage->apply(stages::adamw_step({}, step, 0.5));
  }
  return stage;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_twin_has_the_bits_of_its_owner) {
  const auto device = make_test_device();
  for (const bool tied : {false, true})
    for (const stages::BucketRule& buckets : {stages::BucketRule{.size = 9000}, {.count = 1}})
      for (const int count : {2, 3}) {
        stages::StageSpec spec = small_stage(tied);
        const auto one = trained(spec, *device);
        for (int index = 0; index < count; ++index) {
          spec.state = {.count = count, .index = index, .buckets = buckets, .twins = true};
          const auto divided = trained(spec, *device);
          int kept = 0;
          for (std::size_t i = 0; i < one->parameters().size(); ++i) {
            stages::Parameter whole = one->parameters()[i];
            const stages::Parameter& part = divided->parameters()[i];
            whole.row_cuts = part.row_cuts;
            BOOST_TEST(part.slice == index);
            BOOST_TEST(part.twin_slice == (index + count - 1) % count);
            const auto same = [&](int slice, const tensor::Tensor& exp_avg,
                                  const tensor::Tensor& exp_avg_sq) {
              if (part.region_of(slice).num_elements() == 0) return;
              ++kept;
              BOOST_TEST(
                  same_bytes(part.rows_of(slice, part.weight), whole.rows_of(slice, whole.weight)));
              BOOST_TEST(same_bytes(exp_avg, whole.rows_of(slice, whole.exp_avg)));
              BOOST_TEST(same_bytes(exp_avg_sq, whole.rows_of(slice, whole.exp_avg_sq)));
            };
            same(part.slice, part.exp_avg, part.exp_avg_sq);
            same(part.twin_slice, part.twin_exp_avg, part.twin_exp_avg_sq);
          }
          BOOST_TEST(kept > 2);
        }
      }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

#include "actors/worker/step/lane_rows.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>
#include <vector>

#include "stages/corpus/token_data.h"
#include "tensor/device/ops.h"
#include "tests/support/memory_tokens.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"
#include "tests/support/test_device.h"

// Tests how rows of packed microbatches move between their places in a tensor of an edge and those
// in which a stage of several lanes computes with them.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(lane_rows_test)

namespace {

constexpr std::int64_t kColumns = 3;
constexpr float kElsewhere = -1;

struct Rows {
  explicit Rows(tensor::Device& device, std::int64_t count)
      : memory(device.allocate(static_cast<std::size_t>(count * kColumns) * sizeof(float),
                               tensor::MemoryKind::pinned)),
        tensor(memory.view(tensor::DType::f32, {count, kColumns})) {
    std::fill_n(tensor.as<float>(), tensor.num_elements(), kElsewhere);
  }
  float& operator[](std::int64_t row) const { return tensor.as<float>()[row * kColumns]; }

  tensor::Buffer memory;
  tensor::Tensor tensor;
};

}  // namespace

BOOST_AUTO_TEST_CASE(lanes_come_together_and_return_to_their_places) {
  std::mt19937_64 random(test::fresh_seed());
  const auto device = test::make_test_device(1);
  const auto stream = device->make_stream();
  for (int round = 0; round < 60; ++round) {
    const int lanes = 2 + static_cast<int>(test::below(random, 2));
    const std::int64_t micro = 2, seq_len = 4 + static_cast<std::int64_t>(test::below(random, 40));
    const stages::FeedSpec spec{.documents = stages::Documents::packed,
                                .seq_len = seq_len,
                                .micro = micro,
                                .global = 2 * lanes * micro,
                                .lanes = lanes,
                                .vocab_size = 1000};
    std::vector<std::int64_t> lengths{seq_len + 1};
    for (int i = 0; i < 20; ++i)
      lengths.push_back(2 + static_cast<std::int64_t>(test::below(random, 12)));
    const stages::DataFeed feed(
        std::make_unique<test::MemoryTokens>(test::MemoryTokens::of_lengths(lengths)), spec);
    const StepTokens::Source source{
        .feed = &feed,
        .documents = stages::Documents::packed,
        .rows = stages::row_sizes(spec.documents, lanes * micro * seq_len, 1, lanes),
        .samples = lanes * micro,
        .lanes = lanes,
        .num_microbatches = 2};
    StepTokens tokens(source, *device);
    tokens.begin(0);
    const LaneRows rows(source, tokens);
    BOOST_TEST(rows.are_apart());
    const std::int64_t room = source.rows.capacity / lanes;
    for (const int m : {0, 1}) {
      const Rows x(*device, source.rows.capacity);
      const auto each = [&](const auto& use) {  // lane, row of the lane, its place together
        std::int64_t begin = 0;
        for (int lane = 0; lane < lanes; ++lane) {
          const std::int64_t count = tokens.rows_of_lane(m, lane);
          for (std::int64_t row = 0; row < count; ++row) use(lane, row, begin + row);
          begin += count;
        }
        return begin;
      };
      const auto name = [&](int lane, std::int64_t row) {
        return static_cast<float>(1000 * lane + row);
      };
      each([&](int lane, std::int64_t row, std::int64_t) {
        x[lane * room + row] = name(lane, row);
      });
      rows.gather(*stream, x.tensor, m);
      stream->synchronize();
      const std::int64_t end = each([&](int lane, std::int64_t row, std::int64_t together) {
        BOOST_TEST(x[together] == name(lane, row));
      });
      for (std::int64_t row = end; row < tokens.documents(m).rows; ++row) BOOST_TEST(x[row] == 0.f);
      rows.spread(*stream, x.tensor, m);
      stream->synchronize();
      each([&](int lane, std::int64_t row, std::int64_t) {
        BOOST_TEST(x[lane * room + row] == name(lane, row));
      });
    }
  }
}

// A shard of three, whose slice has two pieces, as rows and as elements of rows that all have.
BOOST_AUTO_TEST_CASE(equal_pieces_come_together_and_return_to_their_places) {
  std::mt19937_64 random(test::fresh_seed());
  const auto device = test::make_test_device(1);
  const auto stream = device->make_stream();
  for (int round = 0; round < 40; ++round) {
    const std::int64_t seq_len = 4 + static_cast<std::int64_t>(test::below(random, 40));
    const stages::FeedSpec spec{.documents = stages::Documents::packed,
                                .seq_len = seq_len,
                                .micro = 2,
                                .global = 8,
                                .lanes = 2,
                                .lanes_alike = true,
                                .vocab_size = 1000};
    std::vector<std::int64_t> lengths{seq_len + 1};
    for (int i = 0; i < 20; ++i)
      lengths.push_back(2 + static_cast<std::int64_t>(test::below(random, 12)));
    const stages::DataFeed feed(
        std::make_unique<test::MemoryTokens>(test::MemoryTokens::of_lengths(lengths)), spec);
    const StepTokens::Source source{.feed = &feed,
                                    .documents = stages::Documents::packed,
                                    .rows = stages::row_sizes(spec.documents, 4 * seq_len, 3, 2),
                                    .samples = 4,
                                    .lanes = 2,
                                    .pieces = 2,
                                    .num_microbatches = 2};
    StepTokens tokens(source, *device);
    tokens.begin(0);
    const LaneRows rows(source, tokens);
    BOOST_TEST(rows.are_apart());
    const Rows x(*device, source.rows.capacity / 3);
    for (const int m : {0, 1})
      for (const bool flat : {false, true}) {
        const std::int64_t size = flat ? x.tensor.num_elements() : x.tensor.shape[0];
        const tensor::Tensor slice =
            flat ? tensor::Tensor{x.tensor.data, x.tensor.dtype, {size}} : x.tensor;
        const std::int64_t own = size * tokens.documents(m).rows / source.rows.capacity / 2;
        const auto at = [&](std::int64_t row) -> float& {
          return slice.as<float>()[flat ? row : row * kColumns];
        };
        for (const std::int64_t piece : {0, 1})
          for (std::int64_t row = 0; row < own; ++row)
            at(piece * (size / 2) + row) = static_cast<float>(1000 * piece + row);
        rows.gather(*stream, slice, m);
        stream->synchronize();
        for (std::int64_t row = 0; row < 2 * own; ++row)
          BOOST_TEST(at(row) == static_cast<float>(row < own ? row : 1000 + row - own));
        rows.spread(*stream, slice, m);
        stream->synchronize();
        for (const std::int64_t piece : {0, 1})
          for (std::int64_t row = 0; row < own; ++row)
            BOOST_TEST(at(piece * (size / 2) + row) == static_cast<float>(1000 * piece + row));
      }
  }
}

BOOST_AUTO_TEST_CASE(one_lane_stays_where_it_is) {
  const auto device = test::make_test_device(1);
  const StepTokens::Source source{.rows = {.capacity = 8, .step = 2}, .num_microbatches = 1};
  const StepTokens tokens(source, *device);
  BOOST_TEST(!LaneRows(source, tokens).are_apart());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors

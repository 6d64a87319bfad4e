#include "tensor/cuda/kernels/attention/document_groups.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>
#include <vector>

#include "tests/emulated_grid/grid.h"
#include "tests/support/seed.h"

namespace troupe::tensor::cuda {

BOOST_AUTO_TEST_SUITE(document_groups_test)

namespace {

constexpr std::int64_t kUntouched = -7;

void check_groups(int documents, int group, int stride, std::mt19937_64& random) {
  std::vector<std::int32_t> starts{0};
  while (static_cast<int>(starts.size()) <= documents)
    starts.push_back(starts.back() + std::uniform_int_distribution<std::int32_t>(1, 5000)(random));
  DocumentGroups x;
  x.starts = starts.data();
  x.documents = documents;
  x.group = group;
  x.stride = stride;
  const auto all = static_cast<std::size_t>(x.groups()) * static_cast<std::size_t>(stride);
  std::vector<std::int32_t> lengths(all, kUntouched);
  std::vector<std::vector<std::int64_t>> offsets(3, std::vector<std::int64_t>(all, kUntouched));
  x.lengths = lengths.data();
  const std::int64_t elements[] = {6144, std::int64_t{1} << 33, 32};  // no 32 bits hold the second
  for (std::size_t i = 0; i < 3; ++i) {
    x.row_elements[i] = elements[i];
    x.offsets[i] = offsets[i].data();
  }
  emulated_grid::Grid grid(random());
  launch_document_groups(x, grid.stream());
  // One document after the other takes the next place, and empty ones at the end take the rest.
  std::vector<std::int32_t> expected_lengths(all, kUntouched);
  std::vector<std::int64_t> expected_rows(all, kUntouched);
  for (int document = 0; document < x.groups() * group; ++document) {
    const auto place = static_cast<std::size_t>(document / group * stride + document % group);
    const auto first = static_cast<std::size_t>(std::min(document, documents));
    const auto next = static_cast<std::size_t>(std::min(document + 1, documents));
    expected_lengths[place] = starts[next] - starts[first];
    expected_rows[place] = starts[first];
    expected_rows[place + 1] = starts[next];
  }
  BOOST_TEST((lengths == expected_lengths));
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<std::int64_t> expected;
    for (const std::int64_t row : expected_rows)
      expected.push_back(row == kUntouched ? kUntouched : row * elements[i]);
    BOOST_TEST((offsets[i] == expected));
  }
}

BOOST_AUTO_TEST_CASE(random_documents_are_grouped_as_a_loop_groups_them) {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  const auto up_to = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed) {
    check_groups(1, 1, 64, random);
    check_groups(8, 4, 64, random);
    for (int round = 0; round < 20; ++round) {
      const int group = up_to(40);
      check_groups(up_to(400), group, group + up_to(64), random);
    }
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor::cuda

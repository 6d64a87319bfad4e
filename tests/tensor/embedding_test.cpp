#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(embedding_test)

namespace {

/// What the contract says, add by add.
std::vector<float> added_in_order(const std::vector<std::int32_t>& ids, std::int64_t first,
                                  std::int64_t rows, const Values& dx, const Values& before) {
  std::vector<float> sums(before.begin(), before.end());
  const auto columns = sums.size() / static_cast<std::size_t>(rows);
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const std::int64_t row = ids[t] - first;
    if (row < 0 || row >= rows) continue;
    for (std::size_t c = 0; c < columns; ++c) {
      sums[static_cast<std::size_t>(row) * columns + c] += static_cast<float>(dx[t * columns + c]);
    }
  }
  return sums;
}

void check(Host& host, DType dtype, const std::vector<std::int32_t>& ids, std::int64_t first,
           std::int64_t rows, std::int64_t columns) {
  const auto tokens = static_cast<std::int64_t>(ids.size());
  const Tensor dx = host.normal(dtype, {tokens, columns}, "dx");
  const Tensor dtable = host.normal(DType::f32, {rows, columns}, "dtable");
  const auto expected = added_in_order(ids, first, rows, Host::read(dx), Host::read(dtable));
  host.ops().embedding_range_backward(host.stream(), host.ids(ids), first, dx, dtable);
  const Values got = Host::read(dtable);
  BOOST_TEST((std::equal(got.begin(), got.end(), expected.begin(), expected.end())));
}

/// One id for three tokens of five, and any of `rows` for the others.
std::vector<std::int32_t> crowded(std::int64_t tokens, std::int64_t rows) {
  const Random random(11, "ids");
  std::vector<std::int32_t> ids;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto any = random.uniform(static_cast<std::uint64_t>(t)) * static_cast<double>(rows);
    ids.push_back(t % 5 < 3 ? static_cast<std::int32_t>(rows - 1) : static_cast<std::int32_t>(any));
  }
  return ids;
}

// Rows of 1200 columns are divided among blocks, those of 7 are not aligned, and 130000 ids take
// several digits to sort.
BOOST_AUTO_TEST_CASE(gradients_are_added_in_ascending_token_order_to_the_last_bit) {
  for_each_setup([](DType dtype, Host& host) {
    check(host, dtype, crowded(150, 40), 0, 40, 1200);
    check(host, dtype, crowded(1000, 1), 0, 1, 8);
    check(host, dtype, crowded(700, 130000), 65536, 50000, 7);
    check(host, dtype, {5, 4, 3, 2, 1, 0, 5, 6}, 2, 3, 16);
    check(host, dtype, {7}, 0, 5, 16);
  });
}

BOOST_AUTO_TEST_CASE(an_id_may_have_thousands_of_tokens) {
  for (const int variant : {1, 2}) {
    Host host(variant);
    check(host, DType::f32, crowded(30000, 32003), 0, 32003, 4);
    check(host, DType::bf16, crowded(5000, 300), 100, 200, 16);
  }
}

// What sorts 1,980 tokens fits the 48 KiB of shared memory that a GPU's block has unasked, but not
// beside the kernel's static array.
BOOST_AUTO_TEST_CASE(tokens_may_nearly_fill_the_shared_memory_of_a_block) {
  Host host(1);
  check(host, DType::bf16, crowded(1980, 300), 0, 300, 8);
}

// The sum over so many tokens of one position is in order, too.
BOOST_AUTO_TEST_CASE(positions_add_many_tokens_in_ascending_order) {
  for_each_setup([](DType dtype, Host& host) {
    const std::int64_t tokens = 1003, positions = 10, columns = 40;
    std::vector<std::int32_t> ids;
    for (std::int64_t t = 0; t < tokens; ++t)
      ids.push_back(static_cast<std::int32_t>((t + 7) % positions));
    const Tensor dx = host.normal(dtype, {tokens, columns}, "dx");
    const Tensor sums = host.normal(DType::f32, {positions, columns}, "sums");
    const auto expected = added_in_order(ids, 0, positions, Host::read(dx), Host::read(sums));
    host.ops().positions_backward(host.stream(), dx, 7, sums);
    const Values got = Host::read(sums);
    BOOST_TEST((std::equal(got.begin(), got.end(), expected.begin(), expected.end())));
  });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor

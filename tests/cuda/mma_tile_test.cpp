#include "tensor/cuda/kernels/attention/mma_tile.h"

#include <boost/test/unit_test.hpp>
#include <vector>

#include "tensor/values/random.h"
#include "tests/emulated_grid/grid.h"
#include "tests/support/seed.h"

namespace troupe::tensor::cuda {

BOOST_AUTO_TEST_SUITE(mma_tile_test)

namespace {

using Element = __nv_bfloat16;

/// Rows and columns of the elements of a lane's fragments, as PTX's section on mma.m16n8k16 has
/// them: i counts the elements of a fragment, two to a register.
int group_of(int lane) {
  return lane >> 2;
}
int in_group(int lane) {
  return lane % 4;
}
int a_row(int lane, int i) {
  return (i < 2) || (i >= 4 && i < 6) ? group_of(lane) : group_of(lane) + 8;
}
int a_column(int lane, int i) {
  return in_group(lane) * 2 + (i & 1) + (i >= 4 ? 8 : 0);
}
int b_row(int lane, int i) {
  return in_group(lane) * 2 + (i & 1) + (i >= 2 ? 8 : 0);
}
int b_column(int lane, int) {
  return group_of(lane);
}
int c_row(int lane, int i) {
  return i < 2 ? group_of(lane) : group_of(lane) + 8;
}
int c_column(int lane, int i) {
  return in_group(lane) * 2 + (i & 1);
}

std::uint32_t pair(float first, float second) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(first)) |
         std::uint32_t{__bfloat16_as_ushort(__float2bfloat16_rn(second))} << 16;
}

/// c[16, 8 n] += a[16,16] x b[16, 8 n], every fragment filled and read by PTX's tables.
template <int n>
void multiply_kernel(const float* a, const float* b, float* c) {
  const int lane = static_cast<int>(threadIdx.x), columns = 8 * n;
  std::uint32_t a_fragment[4], b_fragment[n][2];
  float c_fragment[n][4];
  const auto a_at = [&](int i) { return a[a_row(lane, i) * 16 + a_column(lane, i)]; };
  for (int i = 0; i < 4; ++i) a_fragment[i] = pair(a_at(2 * i), a_at(2 * i + 1));
  for (int tile = 0; tile < n; ++tile) {
    const auto b_at = [&](int i) {
      return b[b_row(lane, i) * columns + 8 * tile + b_column(lane, i)];
    };
    for (int i = 0; i < 2; ++i) b_fragment[tile][i] = pair(b_at(2 * i), b_at(2 * i + 1));
    for (int i = 0; i < 4; ++i)
      c_fragment[tile][i] = c[c_row(lane, i) * columns + 8 * tile + c_column(lane, i)];
  }
  mma_tile(a_fragment, b_fragment, c_fragment);
  for (int tile = 0; tile < n; ++tile) {
    for (int i = 0; i < 4; ++i)
      c[c_row(lane, i) * columns + 8 * tile + c_column(lane, i)] = c_fragment[tile][i];
  }
}

/// Small integers, of which products and their sums are exact in any order.
std::vector<float> integers(std::uint64_t seed, std::string_view name, std::size_t count) {
  const Random random(seed, name);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = float(random.word(i) % 17) - 8;
  return values;
}

template <int n>
void check_product(std::uint64_t seed) {
  const std::size_t columns = 8 * n;
  const auto a = integers(seed, "a", 16 * 16), b = integers(seed, "b", 16 * columns);
  const auto before = integers(seed, "c", 16 * columns);
  auto expected = before, c = before;
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      for (std::size_t k = 0; k < 16; ++k)
        expected[row * columns + column] += a[row * 16 + k] * b[k * columns + column];
    }
  }
  emulated_grid::Grid grid(seed);
  launch(multiply_kernel<n>, 1, 32, 0, grid.stream(), a.data(), b.data(), c.data());
  BOOST_TEST(c == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_tile_is_the_product_in_the_layout_of_ptx) {
  const std::uint64_t seed = test::fresh_seed();
  BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed) {
    for (const std::uint64_t order : {0, 1, 2}) {
      check_product<1>(seed + order);
      check_product<2>(seed + order);
      check_product<8>(seed + order);
    }
  }
}

constexpr int kStride = 24;  // of the rows of four matrices, two beside each other

/// Reads the four 8x8 matrices of x[16, kStride] into registers and writes those.
template <bool transposed>
void load_kernel(const Element* x, std::uint32_t* registers) {
  Element* tile = dynamic_shared<Element>();
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 16 * kStride; i += 32) tile[i] = x[i];
  __syncwarp();
  const int matrix = lane / 8;
  const Element* const at[1] = {tile + (lane % 8 + matrix / 2 * 8) * kStride + matrix % 2 * 8};
  std::uint32_t m[1][4];
  load_matrices<transposed>(at, m);
  for (int i = 0; i < 4; ++i) registers[lane * 4 + i] = m[0][i];
}

template <bool transposed>
void check_load() {
  std::vector<Element> x(16 * kStride);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = __ushort_as_bfloat16(static_cast<ushort>(i));
  std::vector<std::uint32_t> registers(32 * 4);
  emulated_grid::Grid grid(3);
  launch(load_kernel<transposed>, 1, 32, x.size() * sizeof(Element), grid.stream(), x.data(),
         registers.data());
  for (int lane = 0; lane < 32; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      const auto at = [&](int row, int column) {
        if (transposed) std::swap(row, column);
        return static_cast<std::uint32_t>((row + matrix / 2 * 8) * kStride + column +
                                          matrix % 2 * 8);
      };
      // PTX, ldmatrix: lane L holds row L / 4, elements 2 (L % 4) and the next.
      const std::uint32_t expected = at(lane / 4, lane % 4 * 2) | at(lane / 4, lane % 4 * 2 + 1)
                                                                      << 16;
      BOOST_TEST(registers[static_cast<std::size_t>(lane * 4 + matrix)] == expected);
    }
  }
}

BOOST_AUTO_TEST_CASE(matrices_are_loaded_as_ptx_spreads_them) {
  check_load<false>();
  check_load<true>();
}

/// One lane's row is not on a 16-byte boundary.
void misaligned_kernel() {
  Element* tile = dynamic_shared<Element>();
  const Element* const at[1] = {tile + (threadIdx.x == 5 ? 4 : 8)};
  std::uint32_t m[1][4];
  load_matrices<false>(at, m);
}

BOOST_AUTO_TEST_CASE(a_row_that_is_not_aligned_is_a_fault) {
  emulated_grid::Grid grid(0);
  BOOST_CHECK_THROW(launch(misaligned_kernel, 1, 32, 64, grid.stream()), emulated_grid::Fault);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor::cuda

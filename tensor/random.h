#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/matrix_slice.h"
#include "tensor/tensor.h"

namespace troupe::tensor {

/// The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014; constants by Stafford): a
/// bijection in which every input bit reaches every output bit. What comes out must never change,
/// because initial weights and the order of samples depend on it.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Counter-based random numbers: each value is a pure function of (seed, name, index), so that
/// every placement of the model draws the same ones. Philox 4x32 with 10 rounds (Salmon et
/// al., SC'11), keyed by a mix of seed and name.
class Random {
 public:
  Random(std::uint64_t seed, std::string_view name);
  /// 64 random bits: the half (index mod 2) of the Philox block whose counter is index / 2.
  std::uint64_t bits(std::uint64_t index) const;
  /// 32 random bits: the word (index mod 4) of the Philox block whose counter is index / 4. Draw
  /// either words or other values from one name, because they come from the same blocks.
  std::uint32_t word(std::uint64_t index) const;
  /// A uniform number in [0, 1), of 53 bits.
  double uniform(std::uint64_t index) const;
  /// A standard normal number (Box-Muller on values 2*index and 2*index+1).
  double normal(std::uint64_t index) const;
  /// The random numbers of a numbered part of this name, a layer or a step.
  Random part(std::uint64_t number) const;
  /// The Philox key, by which kernels draw the same words.
  std::uint64_t key() const { return key_; }

 private:
  explicit Random(std::uint64_t key) : key_(key) {}

  std::uint64_t key_;
};

/// x[i] = stddev * Random(seed, name).normal(i), x float32 in host memory; the same values for any
/// number of threads.
void fill_normal(const Tensor& x, std::uint64_t seed, std::string_view name, double stddev,
                 int threads);
/// Fills x[R,C] as the part `slice` of a global matrix: each value is the one that fill_normal
/// gives the whole matrix there.
void fill_normal(const Tensor& x, const MatrixSlice& slice, std::uint64_t seed,
                 std::string_view name, double stddev, int threads);

/// Fills x[R,C], float32 in host memory, as the part `slice` of a global matrix with uniform
/// numbers in [-bound, bound]: bound * (2 u - 1), u = Random(seed, name).uniform(global index).
void fill_uniform(const Tensor& x, const MatrixSlice& slice, std::uint64_t seed,
                  std::string_view name, double bound, int threads);
/// The bound that makes fill_uniform the initialization of Glorot and Bengio (AISTATS 2010), also
/// known as Xavier's: sqrt(6 / (fan_in + fan_out)), the fans being those of the global matrix.
double xavier_bound(std::int64_t fan_in, std::int64_t fan_out);

}  // namespace troupe::tensor

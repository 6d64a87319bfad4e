#pragma once

#include <cstdint>
#include <string_view>

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

/// Which elements of a global tensor are dropped, as a pure function: element `index` is kept if
/// word `index` of the random numbers with this key (Random::word) is at least threshold(), and
/// then multiplied by scale(). Nothing is stored between a forward and its backward.
struct Dropout {
  float p = 0;            ///< probability that an element is dropped, in [0, 1)
  std::uint64_t key = 0;  ///< Random::key(); one for each use in a step

  /// p * 2^32.
  std::uint32_t threshold() const {
    return static_cast<std::uint32_t>(static_cast<double>(p) * 0x1p32);
  }
  /// 1 / (1 - p), which keeps the expectation.
  float scale() const { return static_cast<float>(1.0 / (1.0 - static_cast<double>(p))); }
};

/// The place of a tensor [R, C] within a global row-major matrix of which it is a part: element (r,
/// c) is the global element (first_row + r, first_column + c). Random values are drawn by global
/// index, so that every division of a matrix draws the same ones.
struct MatrixSlice {
  std::int64_t columns = 0;  // of the global matrix
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;

  /// Index in the global matrix of the element (r, c) of the slice.
  std::uint64_t index(std::int64_t r, std::int64_t c) const {
    return static_cast<std::uint64_t>((first_row + r) * columns + first_column + c);
  }
};

/// The bound of uniform numbers that makes them the initialization of Glorot and Bengio (AISTATS
/// 2010), also known as Xavier's: sqrt(6 / (fan_in + fan_out)), the fans being those of the global
/// matrix.
double xavier_bound(std::int64_t fan_in, std::int64_t fan_out);

}  // namespace troupe::tensor

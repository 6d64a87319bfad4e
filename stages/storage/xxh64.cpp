#include "stages/storage/xxh64.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace troupe::stages {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read and written as they lie");

constexpr std::uint64_t kPrime1 = 0x9e3779b185ebca87;
constexpr std::uint64_t kPrime2 = 0xc2b2ae3d27d4eb4f;
constexpr std::uint64_t kPrime3 = 0x165667b19e3779f9;
constexpr std::uint64_t kPrime4 = 0x85ebca77c2b2ae63;
constexpr std::uint64_t kPrime5 = 0x27d4eb2f165667c5;

template <typename T>
std::uint64_t load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

}  // namespace

void Xxh64::consume(std::span<const std::byte> stripes) {
  auto lanes = lanes_;  // a copy that the bytes cannot alias stays in registers
  for (; !stripes.empty(); stripes = stripes.subspan(kStripe))
    for (std::size_t i = 0; i < 4; ++i)
      lanes[i] = round(lanes[i], load<std::uint64_t>(stripes.data() + 8 * i));
  lanes_ = lanes;
}

void Xxh64::update(std::span<const std::byte> bytes) {
  const std::size_t held = total_ % kStripe;
  total_ += bytes.size();
  if (held + bytes.size() < kStripe) {
    std::copy(bytes.begin(), bytes.end(), rest_.begin() + held);
    return;
  }
  if (held > 0) {
    const auto missing = bytes.first(kStripe - held);
    std::copy(missing.begin(), missing.end(), rest_.begin() + held);
    consume(rest_);
    bytes = bytes.subspan(missing.size());
  }
  const std::size_t whole = bytes.size() / kStripe * kStripe;
  consume(bytes.first(whole));
  bytes = bytes.subspan(whole);
  std::copy(bytes.begin(), bytes.end(), rest_.begin());
}

std::uint64_t Xxh64::digest() const {
  std::uint64_t sum = kPrime5;
  if (total_ >= kStripe) {
    sum = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
          std::rotl(lanes_[3], 18);
    for (const std::uint64_t lane : lanes_) sum = (sum ^ round(0, lane)) * kPrime1 + kPrime4;
  }
  sum += total_;
  std::span<const std::byte> tail = std::span(rest_).first(total_ % kStripe);
  for (; tail.size() >= 8; tail = tail.subspan(8))
    sum = std::rotl(sum ^ round(0, load<std::uint64_t>(tail.data())), 27) * kPrime1 + kPrime4;
  for (; tail.size() >= 4; tail = tail.subspan(4))
    sum = std::rotl(sum ^ load<std::uint32_t>(tail.data()) * kPrime1, 23) * kPrime2 + kPrime3;
  for (const std::byte b : tail)
    sum = std::rotl(sum ^ std::to_integer<std::uint64_t>(b) * kPrime5, 11) * kPrime1;
  sum = (sum ^ (sum >> 33)) * kPrime2;
  sum = (sum ^ (sum >> 29)) * kPrime3;
  return sum ^ (sum >> 32);
}

std::uint64_t xxh64(std::span<const std::byte> bytes) {
  Xxh64 sum;
  sum.update(bytes);
  return sum.digest();
}

std::uint64_t xxh64(std::string_view text) {
  return xxh64(std::as_bytes(std::span(text)));
}

std::string to_hex(std::uint64_t sum) {
  return fmt::format("{:016x}", sum);
}

}  // namespace troupe::stages

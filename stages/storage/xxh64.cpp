#include "stages/storage/xxh64.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <bit>
#include <new>

namespace troupe::stages {

static_assert(std::endian::native == std::endian::little, "files are read and written as they lie");

void Xxh64::Free::operator()(XXH64_state_s* state) const {
  XXH64_freeState(state);
}

Xxh64::Xxh64() : state_(XXH64_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH64_reset(state_.get(), 0);
}

Xxh64::~Xxh64() = default;

void Xxh64::update(std::span<const std::byte> bytes) {
  XXH64_update(state_.get(), bytes.data(), bytes.size());
}

std::uint64_t Xxh64::digest() const {
  return XXH64_digest(state_.get());
}

std::uint64_t xxh64(std::span<const std::byte> bytes) {
  return XXH64(bytes.data(), bytes.size(), 0);
}

std::uint64_t xxh64(std::string_view text) {
  return xxh64(std::as_bytes(std::span(text)));
}

std::string to_hex(std::uint64_t sum) {
  return fmt::format("{:016x}", sum);
}

}  // namespace troupe::stages

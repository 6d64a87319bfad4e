#include "stages/corpus/text/token_width.h"

#include <cstring>

namespace troupe::stages {
namespace {

template <typename Id>
void unpack(const std::byte* from, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Id id;
    std::memcpy(&id, from + i * sizeof id, sizeof id);
    out[i] = id;
  }
}

template <typename Id>
void pack(std::span<const std::int32_t> ids, std::byte* to) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<Id>(ids[i]);
    std::memcpy(to + i * sizeof id, &id, sizeof id);
  }
}

}  // namespace

void unpack_ids(const std::byte* from, TokenWidth width, std::span<std::int32_t> out) {
  switch (width) {
    case TokenWidth::u8:
      return unpack<std::uint8_t>(from, out);
    case TokenWidth::u16:
      return unpack<std::uint16_t>(from, out);
    case TokenWidth::i32:
      return unpack<std::int32_t>(from, out);
  }
}

void TokenWriter::append(std::span<const std::int32_t> ids) {
  packed_.resize(ids.size() * bytes_of(width_));
  switch (width_) {
    case TokenWidth::u8:
      pack<std::uint8_t>(ids, packed_.data());
      break;
    case TokenWidth::u16:
      pack<std::uint16_t>(ids, packed_.data());
      break;
    case TokenWidth::i32:
      pack<std::int32_t>(ids, packed_.data());
      break;
  }
  file_.write(packed_);
  sum_.update(packed_);
  num_tokens_ += static_cast<std::int64_t>(ids.size());
}

}  // namespace troupe::stages

#include "stages/corpus/text/token_width.h"

#include <cstring>

namespace troupe::stages {
namespace {

/// Calls `use` with a number of the type that ids of this width have.
template <typename Use>
void with_id(TokenWidth width, const Use& use) {
  switch (width) {
    case TokenWidth::u8:
      return use(std::uint8_t{});
    case TokenWidth::u16:
      return use(std::uint16_t{});
    case TokenWidth::i32:
      return use(std::int32_t{});
  }
}

}  // namespace

void unpack_ids(const std::byte* from, TokenWidth width, std::span<std::int32_t> out) {
  with_id(width, [&](auto id) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::memcpy(&id, from + i * sizeof id, sizeof id);
      out[i] = id;
    }
  });
}

void TokenWriter::append(std::span<const std::int32_t> ids) {
  packed_.resize(ids.size() * bytes_of(width_));
  with_id(width_, [&](auto id) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      id = static_cast<decltype(id)>(ids[i]);
      std::memcpy(packed_.data() + i * sizeof id, &id, sizeof id);
    }
  });
  file_.write(packed_);
  sum_.update(packed_);
  num_tokens_ += static_cast<std::int64_t>(ids.size());
}

}  // namespace troupe::stages

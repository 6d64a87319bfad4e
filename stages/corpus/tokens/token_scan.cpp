#include "stages/corpus/tokens/token_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "stages/storage/xxh64.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

constexpr std::int64_t kTokensAtOnce = std::int64_t{1} << 16;

}  // namespace

void check_ids(const TokenFile& tokens, std::int64_t begin, std::span<const std::int32_t> ids,
               std::int64_t vocab_size) {
  const auto bad = std::find_if(
      ids.begin(), ids.end(), [vocab_size](std::int32_t id) { return id < 0 || id >= vocab_size; });
  if (bad != ids.end())
    throw Error(ErrorKind::data,
                fmt::format("{}: token {} has id {}, which is not below vocab_size {}; was the "
                            "dataset made with another tokenizer?",
                            tokens.name(), begin + (bad - ids.begin()), *bad, vocab_size));
}

std::string scan_tokens(const TokenFile& tokens, std::int64_t vocab_size) {
  std::vector<std::int32_t> ids;
  Xxh64 sum;
  for (std::int64_t begin = 0; begin < tokens.num_tokens(); begin += std::ssize(ids)) {
    ids.resize(static_cast<std::size_t>(std::min(kTokensAtOnce, tokens.num_tokens() - begin)));
    tokens.read(begin, ids);
    check_ids(tokens, begin, ids, vocab_size);
    sum.update(std::as_bytes(std::span(ids)));
  }
  for (std::int64_t i = 0; i < tokens.num_masked(); ++i) {
    const TokenSpan span = tokens.masked(i);
    sum.update(std::as_bytes(std::span(&span, 1)));
  }
  return to_hex(sum.digest());
}

}  // namespace troupe::stages

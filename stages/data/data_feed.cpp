#include "stages/data/data_feed.h"

#include <fmt/format.h>

#include "stages/data/shuffle.h"
#include "stages/data/token_scan.h"
#include "tensor/error.h"

namespace troupe::stages {

DataFeed::DataFeed(std::unique_ptr<TokenFile> tokens, const FeedSpec& spec)
    : tokens_(std::move(tokens)), spec_(spec) {
  TROUPE_ASSERT(spec.seq_len > 0 && spec.micro > 0 && spec.replicas > 0);
  TROUPE_ASSERT(spec.global > 0 && spec.global % (spec.replicas * spec.micro) == 0);
  if (num_samples() < 1)
    throw Error(
        ErrorKind::data,
        fmt::format("{}: {} tokens, but one sample of seq_len {} and its targets need {}",
                    tokens_->name(), tokens_->num_tokens(), spec.seq_len, spec.seq_len + 1));
}

DataFeed::~DataFeed() = default;

std::int64_t DataFeed::num_samples() const {
  return (tokens_->num_tokens() - 1) / spec_.seq_len;
}

void DataFeed::microbatch(std::int64_t step, int replica, int microbatch,
                          std::span<std::int32_t> ids, std::span<std::int32_t> targets) const {
  const auto seq_len = static_cast<std::size_t>(spec_.seq_len);
  const auto micro = static_cast<std::size_t>(spec_.micro);
  TROUPE_ASSERT(ids.size() == micro * seq_len && targets.size() == ids.size());
  const std::int64_t first = spec_.origin + step * spec_.global +
                             replica * (spec_.global / spec_.replicas) + microbatch * spec_.micro;
  for (std::size_t i = 0; i < micro; ++i)
    sample(first + static_cast<std::int64_t>(i), ids.subspan(i * seq_len, seq_len),
           targets.subspan(i * seq_len, seq_len));
}

void DataFeed::sample(std::int64_t n, std::span<std::int32_t> ids,
                      std::span<std::int32_t> targets) const {
  const std::int64_t epoch = n / num_samples();
  std::int64_t place = n % num_samples();
  if (spec_.shuffle) place = shuffled(spec_.seed, epoch, num_samples(), place);
  const std::int64_t begin = place * spec_.seq_len;
  tokens_->read(begin, ids);
  tokens_->read(begin + 1, targets);
  check_ids(*tokens_, begin, ids, spec_.vocab_size);
  check_ids(*tokens_, begin + spec_.seq_len, targets.last(1), spec_.vocab_size);
}

}  // namespace troupe::stages

#include "stages/data/data_feed.h"

#include <fmt/format.h>

#include "stages/data/shuffle.h"
#include "stages/data/token_scan.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

std::string too_few(const TokenFile& tokens, const FeedSpec& spec) {
  if (spec.documents != Documents::joined)
    return fmt::format("{}: {} tokens in {} documents, but a sample is a document of at least 2",
                       tokens.name(), tokens.num_tokens(), tokens.num_documents());
  return fmt::format("{}: {} tokens, but one sample of seq_len {} and its targets need {}",
                     tokens.name(), tokens.num_tokens(), spec.seq_len, spec.seq_len + 1);
}

}  // namespace

DataFeed::DataFeed(std::unique_ptr<TokenFile> tokens, const FeedSpec& spec)
    : tokens_(std::move(tokens)), spec_(spec), samples_(*tokens_, spec.seq_len, spec.documents) {
  TROUPE_ASSERT(spec.seq_len > 0 && spec.micro > 0 && spec.replicas > 0);
  TROUPE_ASSERT(spec.global > 0 && spec.global % (spec.replicas * spec.micro) == 0);
  if (num_samples() < 1) throw Error(ErrorKind::data, too_few(*tokens_, spec));
}

DataFeed::~DataFeed() = default;

Sample DataFeed::sample(std::int64_t step, std::int64_t n) const {
  const std::int64_t number = spec_.origin + step * spec_.global + n;
  const std::int64_t epoch = number / num_samples();
  std::int64_t place = number % num_samples();
  if (spec_.shuffle) place = shuffled(spec_.seed, epoch, num_samples(), place);
  return samples_[place];
}

void DataFeed::read(const Sample& sample, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) const {
  tokens_->read(sample.begin, ids);
  tokens_->read(sample.begin + 1, targets);
  check_ids(*tokens_, sample.begin, ids, spec_.vocab_size);
  check_ids(*tokens_, sample.begin + sample.targets, targets.last(1), spec_.vocab_size);
}

void DataFeed::microbatch(std::int64_t step, int replica, int microbatch,
                          std::span<std::int32_t> ids, std::span<std::int32_t> targets) const {
  const auto seq_len = static_cast<std::size_t>(spec_.seq_len);
  const auto micro = static_cast<std::size_t>(spec_.micro);
  TROUPE_ASSERT(ids.size() == micro * seq_len && targets.size() == ids.size());
  const std::int64_t first = replica * (spec_.global / spec_.replicas) + microbatch * spec_.micro;
  for (std::size_t i = 0; i < micro; ++i)
    read(sample(step, first + static_cast<std::int64_t>(i)), ids.subspan(i * seq_len, seq_len),
         targets.subspan(i * seq_len, seq_len));
}

}  // namespace troupe::stages

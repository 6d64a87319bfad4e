#include "stages/corpus/samples/data_feed.h"

#include <fmt/format.h>

#include <algorithm>

#include "stages/corpus/samples/shuffle.h"
#include "stages/corpus/tokens/token_scan.h"
#include "tensor/device/ops.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

std::string too_few(const TokenFile& tokens, const FeedSpec& spec) {
  if (spec.documents != Documents::joined)
    return fmt::format(
        "{}: {} tokens in {} documents, but a sample is a document of at least 2, "
        "one of them behind its prompt",
        tokens.name(), tokens.num_tokens(), tokens.num_documents());
  return fmt::format("{}: {} tokens, but one sample of seq_len {} and its targets need {}",
                     tokens.name(), tokens.num_tokens(), spec.seq_len, spec.seq_len + 1);
}

std::vector<double> weights_of(const std::vector<FeedSource>& sources) {
  std::vector<double> weights;
  for (const FeedSource& source : sources) weights.push_back(source.weight);
  return weights;
}

std::vector<FeedSource> one_source(std::unique_ptr<TokenFile> tokens) {
  std::vector<FeedSource> sources;
  sources.push_back({.tokens = std::move(tokens)});
  return sources;
}

}  // namespace

struct DataFeed::Source {
  std::unique_ptr<TokenFile> tokens;
  SampleTable samples;
};

DataFeed::DataFeed(std::vector<FeedSource> sources, const FeedSpec& spec)
    : spec_(spec), mixture_(weights_of(sources)) {
  TROUPE_ASSERT(spec.seq_len > 0 && spec.micro > 0 && spec.replicas > 0 && spec.lanes > 0);
  TROUPE_ASSERT(spec.global > 0 && spec.global % (spec.replicas * spec.lanes * spec.micro) == 0);
  for (FeedSource& source : sources) {
    SampleTable samples(*source.tokens, spec.seq_len, spec.documents);
    if (samples.size() < 1) throw Error(ErrorKind::data, too_few(*source.tokens, spec));
    sources_.push_back({.tokens = std::move(source.tokens), .samples = std::move(samples)});
  }
}

DataFeed::DataFeed(std::unique_ptr<TokenFile> tokens, const FeedSpec& spec)
    : DataFeed(one_source(std::move(tokens)), spec) {}

DataFeed::~DataFeed() = default;

int DataFeed::num_sources() const {
  return static_cast<int>(sources_.size());
}

std::int64_t DataFeed::num_samples() const {
  std::int64_t samples = 0;
  for (const Source& source : sources_) samples += source.samples.size();
  return samples;
}

const TokenFile& DataFeed::tokens_of(int source) const {
  return *sources_[static_cast<std::size_t>(source)].tokens;
}

Sample DataFeed::blank() const {
  const std::int64_t rows = spec_.documents == Documents::joined ? spec_.seq_len : 1;
  return {.begin = 0, .targets = rows, .masked = rows};
}

Sample DataFeed::sample(std::int64_t step, std::int64_t n) const {
  const std::int64_t position = spec_.origin + step * spec_.global + n;
  if (spec_.once && position >= num_samples()) return blank();
  const auto [source, number] = mixture_[position];
  const SampleTable& samples = sources_[static_cast<std::size_t>(source)].samples;
  if (spec_.documents != Documents::joined) tokens_of(source).refuse_if_cut();
  std::int64_t place = number % samples.size();
  // A seed for each source: two of one size, such as the two languages of a corpus, would otherwise
  // have the same order.
  if (spec_.shuffle)
    place = shuffled(spec_.seed + static_cast<std::uint64_t>(source), number / samples.size(),
                     samples.size(), place);
  Sample sample = samples[place];
  sample.source = source;
  return sample;
}

void DataFeed::read(const Sample& sample, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) const {
  const TokenFile& tokens = tokens_of(sample.source);
  tokens.read(sample.begin, ids);
  tokens.read(sample.begin + 1, targets);
  check_ids(tokens, sample.begin, ids, spec_.vocab_size);
  check_ids(tokens, sample.begin + sample.targets, targets.last(1), spec_.vocab_size);
  if (sample.trained() == 0) {
    std::ranges::fill(targets, tensor::kNoTarget);
    return;
  }
  if (tokens.num_masked() > 0) tokens.refuse_if_cut();
  const std::int64_t first = sample.begin + 1;
  for_each_masked(tokens, {first, first + sample.targets}, [&](const TokenSpan& span) {
    std::ranges::fill(targets.subspan(static_cast<std::size_t>(span.begin - first),
                                      static_cast<std::size_t>(span.end - span.begin)),
                      tensor::kNoTarget);
  });
}

void DataFeed::microbatch(std::int64_t step, int replica, int microbatch,
                          std::span<std::int32_t> ids, std::span<std::int32_t> targets) const {
  const auto seq_len = static_cast<std::size_t>(spec_.seq_len);
  TROUPE_ASSERT(ids.size() == static_cast<std::size_t>(spec_.lanes * spec_.micro) * seq_len &&
                targets.size() == ids.size());
  for_each_sample(step, replica, microbatch, [&](const Sample& sample, std::int64_t row) {
    const auto begin = static_cast<std::size_t>(row);
    read(sample, ids.subspan(begin, seq_len), targets.subspan(begin, seq_len));
  });
}

}  // namespace troupe::stages

#include "tensor/parallel/vocab_parallel_cross_entropy.h"

#include <fmt/format.h>

#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

/// Label smoothing in torch's form: the part of the target's probability that is spread over all
/// classes, the target among them. K is the number of classes of all shards; with that of one shard
/// every shard would have a loss of its own.
float smoothing_of(double alpha, std::int64_t classes) {
  if (alpha == 0) return 0;
  if (!(alpha > 0 && alpha < 1)) {
    throw Error(ErrorKind::manifest,
                fmt::format("label smoothing of {}; it must be at least 0 and below 1", alpha));
  }
  if (classes < 2) {
    throw Error(ErrorKind::manifest,
                fmt::format("label smoothing of {} over {} class; it takes at least 2 classes",
                            alpha, classes));
  }
  const double k = static_cast<double>(classes);
  return static_cast<float>(alpha * k / (k - 1));
}

}  // namespace

VocabParallelCrossEntropy::VocabParallelCrossEntropy(Device& device, const CrossEntropyShape& whole,
                                                     const TensorParallel& parallel,
                                                     const CrossEntropyOptions& options)
    : parallel_(parallel),
      range_(vocab_range(whole.vocabulary, parallel.size, parallel.shard)),
      columns_(columns_of(range_, whole.classes)),
      loss_{.classes = whole.classes,
            .smoothing = smoothing_of(options.label_smoothing, whole.classes),
            .ignored = options.ignored},
      ops_(device.ops()) {
  TROUPE_ASSERT(whole.classes >= 1 && whole.classes <= whole.vocabulary);
}

void VocabParallelCrossEntropy::local_max(Stream& stream, const Tensor& logits,
                                          const CrossEntropyScratch& scratch) {
  // Gathered logits would count every class once per shard.
  TROUPE_ASSERT(logits.shape.rank() == 2 && logits.shape[1] == range_.size);
  ops_.vocab_max(stream, logits, columns_.valid, scratch.max);
}

std::unique_ptr<Work> VocabParallelCrossEntropy::reduce_max(Stream& stream,
                                                            const CrossEntropyScratch& scratch) {
  if (parallel_.size == 1) return nullptr;
  return parallel_.groups->forward->all_reduce(stream, scratch.max, Reduction::max);
}

void VocabParallelCrossEntropy::local_sums(Stream& stream, const Tensor& logits,
                                           const Tensor& targets,
                                           const CrossEntropyScratch& scratch) {
  ops_.vocab_sums(stream, logits, columns_, targets, scratch.max, scratch.sums);
}

std::unique_ptr<Work> VocabParallelCrossEntropy::reduce_sums(Stream& stream,
                                                             const CrossEntropyScratch& scratch) {
  if (parallel_.size == 1) return nullptr;
  return parallel_.groups->forward->all_reduce(stream, scratch.sums);
}

void VocabParallelCrossEntropy::finish(Stream& stream, const Tensor& exponentials,
                                       const Tensor& targets, const CrossEntropyScratch& scratch,
                                       float scale, const Tensor& sum, const Tensor& dlogits,
                                       const Tensor& token_losses) {
  VocabLoss loss = loss_;
  loss.scale = scale;
  ops_.vocab_loss(stream, exponentials, columns_, targets, scratch.sums, loss, sum, dlogits,
                  token_losses);
}

void VocabParallelCrossEntropy::loss(Stream& stream, const Tensor& logits, const Tensor& targets,
                                     const CrossEntropyScratch& scratch, float scale,
                                     const Tensor& sum, const Tensor& dlogits) {
  local_max(stream, logits, scratch);
  wait(reduce_max(stream, scratch), stream);
  local_sums(stream, logits, targets, scratch);
  wait(reduce_sums(stream, scratch), stream);
  finish(stream, logits, targets, scratch, scale, sum, dlogits);
}

}  // namespace troupe::tensor

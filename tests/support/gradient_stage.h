#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "stages/replicas/data_parallel.h"
#include "stages/replicas/shared_buckets.h"
#include "stages/stage/gradient_pieces.h"
#include "stages/stage/slices.h"
#include "tests/support/null_stage.h"

namespace troupe::test {

/// Which of how many replicas a GradientStage is.
struct GradientReplica {
  int count = 1;
  int index = 0;
  bool twins = false;  ///< StateSharding::twins
};

/// A stage that only has gradients and weights: of parameters w0, w1, ... with these numbers of
/// elements, each on a boundary of 64 elements, and a node of a backward for each. Replicas may
/// divide its state as `spec` says. Divided gradients lie in two slots, which buckets have in turn,
/// divided weights in one more than are gathered ahead; then a forward and an input gradient have a
/// node for each bucket.
class GradientStage : public NullStage {
 public:
  explicit GradientStage(const std::vector<std::int64_t>& sizes,
                         const stages::DataParallelSpec& spec = {},
                         const GradientReplica& replica = {})
      : NullStage(1, {}),
        replica_(replica),
        divides_gradients_(spec.divides_gradients()),
        divides_weights_(spec.divides_weights()) {
    const bool is_divided = spec.division != stages::StateDivision::none;
    for (const std::int64_t size : sizes) {
      shapes_.push_back({size});
      offsets_.push_back(size_);
      size_ += aligned(size);
    }
    if (is_divided) cut(spec);
    gradient_memory_ = allocate(divides_gradients_ ? kGradientSlots * largest_ : size_);
    weight_memory_ = allocate(divides_weights_ ? 0 : size_);
    for (std::size_t i = 0; i < sizes.size(); ++i) add_parameter(i);
    if (is_divided) divide(spec);
    for (std::size_t i = 0; i < sizes.size(); ++i) numbers_.push_back(static_cast<int>(i));
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      bucket_numbers_.push_back(static_cast<int>(b));
    for (const int& number : numbers_)
      adders_.push_back({.gradients = {&number, 1}, .adds_to = bucket_list(number)});
    for (const int& number : bucket_numbers_)
      if (divides_weights_) readers_.push_back({.reads = {&number, 1}});
    squares_.emplace(parameters_, device());
  }

  std::span<const stages::Parameter> parameters() const override { return parameters_; }
  tensor::Tensor gradients() const override {
    return divides_gradients_ ? tensor::Tensor{} : view(gradient_memory_, 0, size_);
  }
  tensor::Tensor weights() const override {
    return divides_weights_ ? tensor::Tensor{} : view(weight_memory_, 0, size_);
  }
  std::span<const stages::StateBucket> buckets() const override { return buckets_; }
  std::span<const stages::NodeEffects> nodes(int, stages::Pass pass) const override {
    const bool reads = pass == stages::Pass::forward || pass == stages::Pass::input_gradient;
    return reads ? readers_ : adders_;
  }
  /// The node that adds to a parameter's gradient.
  const stages::NodeEffects& adder(int parameter) const {
    return adders_[static_cast<std::size_t>(parameter)];
  }
  /// The bucket of a parameter of a divided state.
  int bucket_of(int parameter) const { return bucket_of_[static_cast<std::size_t>(parameter)]; }
  std::int64_t num_elements() const { return size_; }

  /// Lets the first parameter be a tied matrix whose other use another stage has.
  void tie() { tied_ = parameters_.front().gradient; }
  tensor::Tensor tied_gradient() const override { return tied_; }

  /// Element i of a parameter's gradient as a replica computes it for a microbatch, between -1 and
  /// 1 (the finalizer of splitmix64).
  static float element(int replica, int step, int microbatch, int parameter, std::int64_t i) {
    std::uint64_t x = static_cast<std::uint64_t>(i);
    for (const int key : {replica, step, microbatch, parameter})
      x = mixed(x * 1000 + static_cast<std::uint64_t>(key));
    return static_cast<float>(static_cast<std::int64_t>(x)) * 0x1p-63f;
  }
  /// Writes a parameter's gradient as a node would, once it may: a microbatch's, or the sum so far.
  void compute(int step, int microbatch, int parameter) {
    stream_of(stages::Pass::weight_gradient).synchronize();
    const tensor::Tensor x = opened(parameters_[static_cast<std::size_t>(parameter)].gradient);
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      const float value = element(replica_.index, step, microbatch, parameter, i);
      const bool is_first = microbatch == 0 || divides_gradients_;
      x.as<float>()[i] = is_first ? value : x.as<float>()[i] + value;
    }
  }
  std::vector<float> gradient(int parameter) const {
    return floats(parameters_[static_cast<std::size_t>(parameter)].gradient);
  }

  /// Norms of whole gradients alone.
  void squared_norms(std::span<double> out) const override {
    tensor::Stream& stream = stream_of(stages::Pass::weight_gradient);
    squares_->sum(stream, {.first = 0, .end = static_cast<int>(squares_->pieces().size())});
    stream.synchronize();
    squares_->add_up(out);
  }

  /// An element of the layout of weights after so many updates; 0 before the first.
  static float weight(int updates, std::int64_t element) {
    return updates == 0 ? 0.0f : static_cast<float>(100'000 * updates + element);
  }
  /// Updates what this replica keeps. Other weights are no numbers until they are gathered.
  void apply(const tensor::AdamWStep&) override {
    ++updates_;
    if (buckets_.empty()) return fill(weights(), 0);
    if (!divides_weights_) {
      const tensor::Tensor all = opened(weights());
      std::fill_n(all.as<float>(), all.num_elements(), std::numeric_limits<float>::quiet_NaN());
    }
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      fill(buckets_[b].kept_weights, slices_[b][static_cast<std::size_t>(replica_.index)].begin);
  }
  /// Keeps a copy of a bucket's weights, as packed matrices would lie in the bucket's slot.
  void pack(int bucket, stages::Pass pass) override {
    stream_of(pass).synchronize();
    const tensor::Tensor whole = opened(whole_weights(bucket, pass));
    packed_of(bucket, pass).assign(whole.as<float>(), whole.as<float>() + whole.num_elements());
    ++times_packed_;
  }
  /// What a node reads.
  const std::vector<float>& packed(int bucket, stages::Pass pass) {
    return packed_of(bucket, pass);
  }
  int times_packed() const { return times_packed_; }
  void weights_changed() override { ++times_changed_; }
  int times_changed() const { return times_changed_; }

 private:
  static constexpr std::int64_t kGradientSlots = 2;

  static std::int64_t aligned(std::int64_t elements) { return (elements + 63) / 64 * 64; }
  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  static std::vector<float> floats(const tensor::Tensor& of) {
    const tensor::Tensor x = opened(of);
    return {x.as<float>(), x.as<float>() + x.num_elements()};
  }
  tensor::Buffer allocate(std::int64_t elements) {
    return device().allocate(static_cast<std::size_t>(elements) * sizeof(float),
                             tensor::MemoryKind::device);
  }
  static tensor::Tensor view(const tensor::Buffer& memory, std::int64_t begin, std::int64_t size) {
    return memory.view(tensor::DType::f32, {size}, static_cast<std::size_t>(begin) * sizeof(float));
  }
  /// Writes the weights from an element of the layout on.
  void fill(const tensor::Tensor& weights, std::int64_t begin) const {
    const tensor::Tensor x = opened(weights);
    for (std::int64_t i = 0; i < x.num_elements(); ++i)
      x.as<float>()[i] = weight(updates_, begin + i);
  }
  int twin() const { return (replica_.index + replica_.count - 1) % replica_.count; }
  std::span<const int> bucket_list(int parameter) const {
    if (!divides_gradients_) return {};
    return {&bucket_numbers_[static_cast<std::size_t>(bucket_of(parameter))], 1};
  }

  void cut(const stages::DataParallelSpec& spec) {
    const auto pieces = stages::cut_into_pieces(shapes_, offsets_);
    bucket_of_.resize(shapes_.size());
    for (const stages::Bucket& range : stages::cut_into_buckets(offsets_, size_, spec.buckets)) {
      for (int i = range.parameters.first; i < range.parameters.end; ++i)
        bucket_of_[static_cast<std::size_t>(i)] = static_cast<int>(buckets_.size());
      buckets_.push_back({.range = range});
      slices_.push_back(stages::cut_into_slices(range, pieces, replica_.count));
      largest_ = std::max(largest_, range.size());
    }
  }
  void add_parameter(std::size_t i) {
    stages::Parameter parameter{.name = "w" + std::to_string(i), .offset = offsets_[i]};
    std::int64_t in_slot = offsets_[i];
    if (divides_gradients_) {
      const int bucket = bucket_of_[i];
      in_slot += (bucket % kGradientSlots) * largest_ -
                 buckets_[static_cast<std::size_t>(bucket)].range.begin;
    }
    parameter.gradient = view(gradient_memory_, in_slot, shapes_[i][0]);
    parameter.kept_gradient = parameter.gradient;
    if (!divides_weights_) parameter.weight = view(weight_memory_, offsets_[i], shapes_[i][0]);
    parameters_.push_back(parameter);
  }
  void divide(const stages::DataParallelSpec& spec) {
    std::vector<stages::Bucket> ranges;
    for (const stages::StateBucket& bucket : buckets_) ranges.push_back(bucket.range);
    const auto cuts = stages::cut_rows(shapes_, offsets_, ranges,
                                       stages::cut_into_pieces(shapes_, offsets_), replica_.count);
    kept_memory_ = allocate(divides_gradients_ ? 2 * (size_ + largest_) : 0);
    kept_weight_memory_ = allocate(divides_weights_ ? size_ : 0);
    const auto num_buckets = static_cast<std::int64_t>(buckets_.size());
    const std::int64_t slots =
        spec.reshards ? std::min<std::int64_t>(1 + spec.prefetch, num_buckets) : num_buckets;
    slot_memory_ = allocate(divides_weights_ ? 2 * slots * largest_ : 0);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      stages::Parameter& parameter = parameters_[i];
      parameter.row_cuts = cuts[i];
      parameter.slice = replica_.index;
      parameter.twin_slice = replica_.twins ? twin() : -1;
    }
    std::int64_t end = 0;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      end = place_gradients(b, end);
      place_weights(b, static_cast<std::int64_t>(b) % slots, slots, spec.reshards);
    }
    packed_.resize(static_cast<std::size_t>(2 * slots));
  }
  /// Lays out the slices that this replica keeps, from `end` on; returns their end.
  std::int64_t place_gradients(std::size_t b, std::int64_t end) {
    stages::StateBucket& bucket = buckets_[b];
    const stages::Slice& own = slices_[b][static_cast<std::size_t>(replica_.index)];
    const stages::Slice& twin_slice = slices_[b][static_cast<std::size_t>(twin())];
    const auto kept = [&](const stages::Slice& slice) {
      if (!divides_gradients_) return view(gradient_memory_, slice.begin, slice.size());
      return view(kept_memory_, std::exchange(end, end + slice.size()), slice.size());
    };
    bucket.gradient =
        view(gradient_memory_,
             divides_gradients_ ? static_cast<std::int64_t>(b) % kGradientSlots * largest_
                                : bucket.range.begin,
             bucket.range.size());
    if (divides_gradients_) bucket.gradient_slot = static_cast<int>(b) % kGradientSlots;
    bucket.kept_gradient = kept(own);
    if (replica_.twins) bucket.twin_gradient = kept(twin_slice);
    for (int i = bucket.range.parameters.first; i < bucket.range.parameters.end; ++i) {
      stages::Parameter& parameter = parameters_[static_cast<std::size_t>(i)];
      const auto rows = [&](int number, const stages::Slice& slice, const tensor::Tensor& memory) {
        const auto n = static_cast<std::size_t>(number);
        const std::int64_t first = parameter.row_cuts[n];
        const std::int64_t count = parameter.row_cuts[n + 1] - first;
        const std::int64_t begin = count == 0 ? 0 : parameter.offset + first - slice.begin;
        return stages::elements_of(memory, begin, count);
      };
      parameter.kept_gradient = rows(replica_.index, own, bucket.kept_gradient);
      if (replica_.twins) parameter.twin_gradient = rows(twin(), twin_slice, bucket.twin_gradient);
    }
    return end;
  }
  void place_weights(std::size_t b, std::int64_t slot, std::int64_t slots, bool reshards) {
    stages::StateBucket& bucket = buckets_[b];
    const stages::Slice& own = slices_[b][static_cast<std::size_t>(replica_.index)];
    bucket.kept_weights =
        view(divides_weights_ ? kept_weight_memory_ : weight_memory_, own.begin, own.size());
    if (!divides_weights_) {
      bucket.forward_weights = bucket.backward_weights =
          view(weight_memory_, bucket.range.begin, bucket.range.size());
      return;
    }
    const std::int64_t again = reshards ? slots : 0;
    bucket.forward_slot = bucket.backward_slot = static_cast<int>(slot);
    bucket.forward_weights = view(slot_memory_, slot * largest_, bucket.range.size());
    bucket.backward_weights = view(slot_memory_, (again + slot) * largest_, bucket.range.size());
  }
  const tensor::Tensor& whole_weights(int bucket, stages::Pass pass) const {
    const stages::StateBucket& of = buckets_[static_cast<std::size_t>(bucket)];
    return pass == stages::Pass::forward ? of.forward_weights : of.backward_weights;
  }
  std::vector<float>& packed_of(int bucket, stages::Pass pass) {
    const auto offset = opened(whole_weights(bucket, pass)).as<float>() -
                        static_cast<float*>(opened(slot_memory_.data()));
    return packed_[static_cast<std::size_t>(offset / largest_)];
  }

  const GradientReplica replica_;
  const bool divides_gradients_, divides_weights_;
  std::vector<tensor::Shape> shapes_;
  std::vector<std::int64_t> offsets_;
  std::int64_t size_ = 0, largest_ = 0;  // elements: of the layout, and of the largest bucket
  std::vector<stages::StateBucket> buckets_;
  std::vector<std::vector<stages::Slice>> slices_;  // by bucket and replica
  std::vector<int> bucket_of_;                      // by parameter
  tensor::Buffer gradient_memory_, weight_memory_, kept_memory_, kept_weight_memory_, slot_memory_;
  std::vector<stages::Parameter> parameters_;
  std::optional<stages::GradientSquares> squares_;
  tensor::Tensor tied_;
  std::vector<int> numbers_, bucket_numbers_;
  std::vector<stages::NodeEffects> adders_, readers_;
  std::vector<std::vector<float>> packed_;  // by slot
  int updates_ = 0, times_packed_ = 0, times_changed_ = 0;
};

}  // namespace troupe::test

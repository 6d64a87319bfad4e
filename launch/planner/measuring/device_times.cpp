#include "launch/planner/measuring/device_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <memory>

#include "stages/decoder/stage/optimizer.h"
#include "stages/decoder/stage/transformer_stage.h"
#include "stages/stage/stage.h"
#include "tensor/device/linear.h"

namespace troupe::launch {
namespace {

using tensor::MemoryKind;

constexpr std::int64_t kTokens = 1024;
constexpr int kRounds = 5;
/// A product is repeated until it has taken so long.
constexpr double kLeastSeconds = 0.004;

/// The time for which this thread has computed: what others take of its core meanwhile would count
/// as its own else. The threads that compute with it, if there are some, take as long.
double computed_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <typename Call>
double seconds_of(const Call& call) {
  const double begin = computed_s();
  call();
  return computed_s() - begin;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double spread(const std::vector<double>& values) {
  const auto [least, most] = std::ranges::minmax(values);
  return (most - least) / median(values);
}

/// The median time of a call, each measured over several so that none is too short.
template <typename Call>
double time_of(const Call& call) {
  const double first = std::max(seconds_of(call), 1e-7);
  const int repeats = std::max(1, static_cast<int>(kLeastSeconds / first));
  std::vector<double> times;
  for (int i = 0; i < 3; ++i)
    times.push_back(seconds_of([&] {
                      for (int j = 0; j < repeats; ++j) call();
                    }) /
                    repeats);
  return median(times);
}

stages::ModelConfig model_of(const schedules::Work& work) {
  return {.hidden_size = work.hidden,
          .intermediate_size = work.feed_forward,
          .num_hidden_layers = work.layers,
          .num_attention_heads = work.heads,
          .num_key_value_heads = work.kv_heads,
          .head_dim = work.head_width,
          .vocab_size = work.vocabulary,
          .dtype = tensor::DType::f32};
}

/// The products of one linear layer.
class Layer {
 public:
  Layer(tensor::Device& device, std::int64_t rows, std::int64_t in, std::int64_t out,
        tensor::DType dtype)
      : stream_(device.make_stream()),
        linear_(device.make_linear(
            {.rows = rows, .in = in, .out = out, .dtype = dtype, .output_dtype = dtype})),
        weight_(device.allocate(static_cast<std::size_t>(in * out) * 4, MemoryKind::device)),
        packed_(
            device.allocate(std::max<std::size_t>(linear_->packed_bytes(), 1), MemoryKind::device)),
        x_(device.allocate(static_cast<std::size_t>(rows * in) * 4, MemoryKind::device)),
        y_(device.allocate(static_cast<std::size_t>(rows * out) * 4, MemoryKind::device)),
        forward_(device.allocate(std::max<std::size_t>(linear_->scratch_bytes().forward, 1),
                                 MemoryKind::device)),
        backward_(device.allocate(std::max<std::size_t>(linear_->scratch_bytes().backward, 1),
                                  MemoryKind::device)),
        x_view_(x_.view(dtype, {rows, in})),
        y_view_(y_.view(dtype, {rows, out})),
        w_view_(weight_.view(tensor::DType::f32, {out, in})) {
    linear_->set_scratch({.forward = forward_.data(), .backward = backward_.data()});
    linear_->pack(*stream_, w_view_, packed_.data());
  }

  double forward() {
    return time_of([&] { linear_->forward(*stream_, x_view_, packed_.data(), y_view_); });
  }
  double input_gradient() {
    return time_of([&] { linear_->input_gradient(*stream_, y_view_, packed_.data(), x_view_); });
  }
  double weight_gradient() {
    return time_of([&] {
      linear_->weight_gradient(*stream_, y_view_, x_view_, w_view_, tensor::Gradient::added);
    });
  }

 private:
  std::unique_ptr<tensor::Stream> stream_;
  std::unique_ptr<tensor::Linear> linear_;
  tensor::Buffer weight_, packed_, x_, y_, forward_, backward_;
  tensor::Tensor x_view_, y_view_, w_view_;
};

/// A step of one microbatch.
class Training {
 public:
  Training(const schedules::Work& work, int threads)
      : device_(tensor::make_cpu_device(threads)),
        stage_(
            stages::make_transformer_stage({.model = model_of(work),
                                            .chunks = {{.end_layer = static_cast<int>(work.layers),
                                                        .embedding = true,
                                                        .head = true}},
                                            .micro = work.micro,
                                            .seq_len = work.seq_len,
                                            .global_tokens = work.tokens()},
                                           *device_)),
        loss_(device_->allocate(sizeof(double), MemoryKind::pinned)),
        ids_(static_cast<std::size_t>(work.tokens())),
        norms_(stage_->parameters().size()) {
    stages::initialize(*stage_, model_of(work), 1, threads);
    for (std::size_t i = 0; i < ids_.size(); ++i)
      ids_[i] = static_cast<std::int32_t>(i * 97 % static_cast<std::size_t>(work.vocabulary));
  }

  double begin() {
    return seconds_of([&] { stage_->begin_step(); });
  }
  double forward() {
    const stages::ForwardCall call{
        .ids = ids_, .targets = ids_, .loss = loss_.view(tensor::DType::f64, {1})};
    return seconds_of([&] {
      const int count = static_cast<int>(stage_->nodes(0, stages::Pass::forward).size());
      for (int node = 0; node < count; ++node) stage_->forward_node(call, node);
      stage_->ran(0, 0).synchronize();
    });
  }
  double backward() {
    const stages::BackwardCall call{};
    return seconds_of([&] {
      const int count = static_cast<int>(stage_->nodes(0, call.pass).size());
      for (int node = 0; node < count; ++node) stage_->backward_node(call, node);
      stage_->ran(0, 0).synchronize();
    });
  }
  double end() {
    return seconds_of([&] {
      stage_->synchronize();
      stage_->squared_norms(norms_);
      stage_->apply(stages::adamw_step(optimizer_, ++step_, 1));
    });
  }

 private:
  const stages::OptimizerConfig optimizer_{.max_steps = 1'000'000};
  std::unique_ptr<tensor::Device> device_;
  std::unique_ptr<stages::Stage> stage_;
  tensor::Buffer loss_;
  std::vector<std::int32_t> ids_;
  std::vector<double> norms_;
  std::int64_t step_ = 0;
};

}  // namespace

schedules::Work stage_work(std::int64_t seq_len) {
  return {.hidden = 384,
          .feed_forward = 1024,
          .heads = 6,
          .kv_heads = 6,
          .head_width = 64,
          .layers = 2,
          .vocabulary = 1024,
          .gates = 2,
          .element_bytes = 4,
          .micro = kTokens / seq_len,
          .seq_len = seq_len};
}

StageTimes time_stage(const schedules::Work& work, int threads) {
  Training training(work, threads);
  std::vector<double> forward, backward, optimizer;
  for (int i = 0; i <= kRounds; ++i) {
    const double begin = training.begin(), there = training.forward(), back = training.backward();
    const double outside = begin + training.end();
    if (i == 0) continue;  // memory is touched for the first time
    forward.push_back(there);
    backward.push_back(back);
    optimizer.push_back(outside);
  }
  return {.forward = median(forward),
          .backward = median(backward),
          .optimizer = median(optimizer),
          .spread = std::max(spread(forward), spread(backward))};
}

std::vector<schedules::MachineModel::ProductRate> time_products(int threads) {
  constexpr std::array<std::int64_t, 3> kSides{128, 512, 2048};
  const auto device = tensor::make_cpu_device(threads);
  std::vector<schedules::MachineModel::ProductRate> rates;
  const auto add = [&](std::int64_t m, std::int64_t n, std::int64_t k, double seconds) {
    const auto [dm, dn, dk] =
        std::array{static_cast<double>(m), static_cast<double>(n), static_cast<double>(k)};
    rates.push_back({.m = dm, .n = dn, .k = dk, .rate = 2e-9 * dm * dn * dk / seconds});
  };
  for (const std::int64_t rows : kSides)
    for (const std::int64_t in : kSides)
      for (const std::int64_t out : kSides) {
        Layer layer(*device, rows, in, out, tensor::DType::f32);
        add(rows, out, in, layer.forward());
        add(rows, in, out, layer.input_gradient());
        add(out, in, rows, layer.weight_gradient());
      }
  return rates;
}

double bfloat16_ratio(int threads) {
  const auto device = tensor::make_cpu_device(threads);
  Layer whole(*device, 512, 1024, 1024, tensor::DType::f32);
  Layer half(*device, 512, 1024, 1024, tensor::DType::bf16);
  return whole.forward() / half.forward();
}

}  // namespace troupe::launch

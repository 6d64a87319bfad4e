#include "tensor/cuda/products/product_trial.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "tensor/cuda/runtime/cuda_error.h"
#include "tensor/cuda/runtime/cuda_event.h"
#include "tensor/cuda/runtime/cuda_stream.h"
#include "tensor/values/random.h"

namespace troupe::tensor::cuda {
namespace {

constexpr int kWarmUps = 2, kRuns = 7;
constexpr float kClearlyFaster = 0.97f;

/// Memory of the GPU that is given back at the end.
class TrialMemory {
 public:
  /// Null memory if there is too little.
  explicit TrialMemory(std::size_t bytes) {
    const cudaError_t code = cudaMalloc(&data_, std::max<std::size_t>(bytes, 1));
    if (code == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();  // it does not stick
      data_ = nullptr;
      return;
    }
    check(code, "cudaMalloc");
  }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  ~TrialMemory() { (void)cudaFree(data_); }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

std::size_t bytes_of(const ColumnMajor& matrix) {
  return static_cast<std::size_t>(matrix.ld * matrix.columns) * size_of(matrix.dtype);
}

/// Numbers in [-1, 1) that repeat after a while: a GPU multiplies zeros faster than others.
void fill(void* data, const ColumnMajor& matrix, cudaStream_t stream) {
  constexpr std::size_t kPeriod = 1 << 18;
  const std::size_t size = size_of(matrix.dtype), bytes = bytes_of(matrix);
  std::vector<std::byte> numbers(std::min(kPeriod * size, bytes));
  const Random random(1, "trial of a product");
  for (std::size_t i = 0; i < numbers.size() / size; ++i) {
    const float value = static_cast<float>(2 * random.uniform(i) - 1);
    if (matrix.dtype == DType::bf16) {
      reinterpret_cast<BFloat16*>(numbers.data())[i] = to_bfloat16(value);
    } else {
      reinterpret_cast<float*>(numbers.data())[i] = value;
    }
  }
  auto* const to = static_cast<std::byte*>(data);
  check(cudaMemcpyAsync(to, numbers.data(), numbers.size(), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
  for (std::size_t done = numbers.size(); done < bytes;) {
    const std::size_t more = std::min(done, bytes - done);
    check(cudaMemcpyAsync(to + done, to, more, cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync");
    done += more;
  }
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");  // `numbers` ends here
}

}  // namespace

std::size_t fastest_of(ProductDescriptors& product, const ProductLayout& layout, bool added,
                       const std::vector<ProductAlgorithm>& algorithms) {
  std::size_t workspace = 0;
  for (const ProductAlgorithm& algorithm : algorithms)
    workspace = std::max(workspace, algorithm.workspace);
  const TrialMemory a(bytes_of(layout.a)), b(bytes_of(layout.b)), d(bytes_of(layout.d)),
      work(workspace);
  if (algorithms.size() < 2 || !a.data() || !b.data() || !d.data() || !work.data()) return 0;
  const StreamHandle stream;
  const EventHandle begin(true), end(true);
  fill(a.data(), layout.a, stream.get());
  fill(b.data(), layout.b, stream.get());
  fill(d.data(), layout.d, stream.get());
  const ProductAddresses at{a.data(), b.data(), added ? d.data() : nullptr, d.data()};
  const auto time_of = [&](const ProductAlgorithm& algorithm) {
    float least = std::numeric_limits<float>::infinity();
    for (int run = 0; run < kWarmUps + kRuns; ++run) {
      check(cudaEventRecord(begin.get(), stream.get()), "cudaEventRecord");
      product.run(algorithm, stream.get(), at, work.data());
      check(cudaEventRecord(end.get(), stream.get()), "cudaEventRecord");
      check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
      if (run >= kWarmUps) least = std::min(least, milliseconds);
    }
    return least;
  };
  std::vector<float> times;
  for (const ProductAlgorithm& algorithm : algorithms) times.push_back(time_of(algorithm));
  const auto best = std::min_element(times.begin(), times.end());
  return *best < kClearlyFaster * times.front() ? static_cast<std::size_t>(best - times.begin())
                                                : 0;
}

}  // namespace troupe::tensor::cuda

#include "tests/support/host_cudnn.h"

#include "tests/support/document_plan.h"

namespace troupe::test {
namespace {

HostCudnn& cudnn() {
  static HostCudnn one;
  return one;
}

class IdlePlan final : public tensor::cuda::CudnnPlan {
 public:
  std::size_t workspace_bytes() const override { return 0; }
  void run(cudaStream_t, const tensor::cuda::AttentionAddresses&, void*) override {}
};

}  // namespace

HostCudnn& HostCudnn::reset() {
  return cudnn() = HostCudnn();
}

HostCudnn& HostCudnn::get() {
  return cudnn();
}

}  // namespace troupe::test

namespace troupe::tensor::cuda {

CudnnPlan::Made CudnnPlan::make(const AttentionShape& shape, AttentionPass pass, bool deterministic,
                                const DescribedGpu*) {
  auto& cudnn = test::HostCudnn::get();
  ++cudnn.plans;
  std::string refusal = cudnn.refusal ? cudnn.refusal(shape, pass, deterministic) : "";
  if (!refusal.empty()) return {.plan = nullptr, .refusal = std::move(refusal)};
  if (shape.documents)
    return {.plan = std::make_unique<test::DocumentPlan>(shape, pass, cudnn.runs)};
  return {.plan = std::make_unique<test::IdlePlan>(), .refusal = ""};
}

bool CudnnPlan::is_there() {
  return test::HostCudnn::get().there;
}

}  // namespace troupe::tensor::cuda

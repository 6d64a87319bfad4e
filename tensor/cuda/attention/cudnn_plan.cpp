#include "tensor/cuda/attention/cudnn_plan.h"

#include <cudnn_frontend.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cmath>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensor/errors/error.h"

// The library that cuDNN's frontend calls. Whoever includes the frontend has to define it; only
// this file does.
void* cudnn_frontend::cudnn_dlhandle = nullptr;

namespace troupe::tensor::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using Attributes = std::shared_ptr<fe::graph::Tensor_attributes>;
using Dims = std::vector<std::int64_t>;

/// The tensors of a graph, by the numbers that a call gives their addresses with.
enum Id : std::int64_t { kQ = 1, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv };

[[noreturn]] void fail(const std::string& what, const std::string& why) {
  throw Error(ErrorKind::internal, fmt::format("cuDNN: {} failed: {}", what, why));
}

void check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) fail(call, fe::detail::get_error_string(status));
}

/// A context of cuDNN; null for a plan without a GPU.
class Handle {
 public:
  explicit Handle(bool real) {
    if (real) check(fe::detail::create_handle(&handle_), "cudnnCreate");
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (handle_) fe::detail::destroy_handle(handle_);
  }
  cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

/// The shape as cuDNN has it: [B, heads, S, D] with strides.
struct Layouts {
  explicit Layouts(const AttentionShape& s)
      : B(s.batch), S(s.seq_len), H(s.heads), K(s.kv_heads), D(s.head_dim) {}

  /// A tensor saved as [B, heads, S, D].
  Attributes saved(Graph& graph, const char* name, Id id, std::int64_t heads) const {
    return tensor(graph, name, id, heads, {heads * S * D, S * D, D, 1});
  }
  /// Columns of a matrix [B*S, `columns`], D for each head.
  Dims row_strides(std::int64_t columns) const { return {S * columns, D, columns, 1}; }
  Attributes tensor(Graph& graph, const char* name, Id id, std::int64_t heads,
                    const Dims& strides) const {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_name(name)
                            .set_uid(id)
                            .set_dim({B, heads, S, D})
                            .set_stride(strides));
  }
  Attributes lse(Graph& graph) const {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_name("lse")
                            .set_uid(kLse)
                            .set_dim({B, H, S, 1})
                            .set_stride({H * S, S, 1, 1})
                            .set_data_type(fe::DataType_t::FLOAT));
  }
  void set_output(const Attributes& output, Id id, std::int64_t heads, const Dims& strides) const {
    output->set_output(true).set_uid(id).set_dim({B, heads, S, D}).set_stride(strides);
  }
  float scale() const { return static_cast<float>(1 / std::sqrt(static_cast<double>(D))); }

  const std::int64_t B, S, H, K, D;
};

void add_forward(Graph& graph, const AttentionShape& shape) {
  const Layouts at(shape);
  auto options =
      fe::graph::SDPA_attributes().set_name("forward").set_generate_stats(true).set_attn_scale(
          at.scale());
  if (shape.causal) {
    options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
        .set_diagonal_band_right_bound(0);
  }
  const auto [out, lse] = graph.sdpa(at.saved(graph, "q", kQ, at.H), at.saved(graph, "k", kK, at.K),
                                     at.saved(graph, "v", kV, at.K), options);
  at.set_output(out, kOut, at.H, at.row_strides(at.H * at.D));
  lse->set_output(true).set_uid(kLse).set_data_type(fe::DataType_t::FLOAT);
}

void add_backward(Graph& graph, const AttentionShape& shape, bool deterministic) {
  const Layouts at(shape);
  auto options = fe::graph::SDPA_backward_attributes()
                     .set_name("backward")
                     .set_attn_scale(at.scale())
                     .set_deterministic_algorithm(deterministic);
  if (shape.causal) {
    options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
        .set_diagonal_band_right_bound(0);
  }
  const Dims rows = at.row_strides(at.H * at.D);
  const auto [dq, dk, dv] =
      graph.sdpa_backward(at.saved(graph, "q", kQ, at.H), at.saved(graph, "k", kK, at.K),
                          at.saved(graph, "v", kV, at.K), at.tensor(graph, "out", kOut, at.H, rows),
                          at.tensor(graph, "dout", kDout, at.H, rows), at.lse(graph), options);
  const Dims columns = at.row_strides((at.H + 2 * at.K) * at.D);
  at.set_output(dq, kDq, at.H, columns);
  at.set_output(dk, kDk, at.K, columns);
  at.set_output(dv, kDv, at.K, columns);
}

class Plan final : public CudnnPlan {
 public:
  Plan(const AttentionShape& shape, AttentionPass pass, bool real)
      : shape_(shape), pass_(pass), handle_(real) {
    const bool bf16 = shape.dtype == DType::bf16;
    graph_.set_io_data_type(bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::FLOAT)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  /// The reason if cuDNN refuses the graph; empty if it is ready.
  std::string build(bool deterministic, const DescribedGpu* gpu) {
    fe::error_t error = gpu ? describe(*gpu) : fe::error_t();
    if (pass_ == AttentionPass::forward) {  // after the description, which nodes take over
      add_forward(graph_, shape_);
    } else {
      add_backward(graph_, shape_, deterministic);
    }
    if (error.is_good()) error = graph_.validate();
    if (error.is_good())
      error = handle_.get() ? graph_.build_operation_graph(handle_.get())
                            : graph_.build_operation_graph();
    if (error.is_good()) error = graph_.create_execution_plans({fe::HeurMode_t::A});
    if (error.is_good()) error = graph_.check_support();
    if (error.is_good()) error = graph_.build_plans();
    std::int64_t bytes = 0;
    if (error.is_good()) error = graph_.get_workspace_size(bytes);
    workspace_ = static_cast<std::size_t>(bytes);
    return error.is_good() ? "" : error.get_message();
  }

  std::size_t workspace_bytes() const override { return workspace_; }

  void run(cudaStream_t stream, const AttentionAddresses& at, void* workspace) override {
    const std::lock_guard lock(running_);
    addresses_[kQ] = at.q;
    addresses_[kK] = at.k;
    addresses_[kV] = at.v;
    addresses_[kOut] = at.out;
    addresses_[kLse] = at.lse;
    if (pass_ == AttentionPass::backward) {
      auto* const dqkv = static_cast<BFloat16*>(at.dqkv);
      const std::int64_t H = shape_.heads, K = shape_.kv_heads, D = shape_.head_dim;
      addresses_[kDout] = at.dout;
      addresses_[kDq] = dqkv;
      addresses_[kDk] = dqkv + H * D;
      addresses_[kDv] = dqkv + (H + K) * D;
    }
    check(fe::detail::set_stream(handle_.get(), stream), "cudnnSetStream");
    fe::error_t error = graph_.execute(handle_.get(), addresses_, workspace);
    if (error.is_bad()) fail("attention", error.get_message());
  }

 private:
  fe::error_t describe(const DescribedGpu& gpu) {
    graph_.set_sm_version(gpu.version);  // else the frontend asks this process's GPU
    auto properties = std::make_shared<fe::DeviceProperties>();
    fe::error_t error = properties->deserialize({gpu.json.begin(), gpu.json.end()});
    graph_.set_device_properties(properties);
    return error;
  }

  const AttentionShape shape_;
  const AttentionPass pass_;
  const Handle handle_;
  Graph graph_;
  std::size_t workspace_ = 0;
  std::mutex running_;  // protects the handle's stream and the addresses
  std::unordered_map<std::int64_t, void*> addresses_;  // kept, so that later calls allocate nothing
};

}  // namespace

CudnnPlan::Made CudnnPlan::make(const AttentionShape& shape, AttentionPass pass, bool deterministic,
                                const DescribedGpu* gpu) {
  TROUPE_ASSERT(is_there());
  try {
    auto plan = std::make_unique<Plan>(shape, pass, !gpu);
    if (std::string why = plan->build(deterministic, gpu); !why.empty())
      return {.plan = nullptr, .refusal = std::move(why)};
    return {.plan = std::move(plan), .refusal = ""};
  } catch (const fe::cudnnException& error) {
    fail("making a plan for attention", error.what());
  }
}

bool CudnnPlan::is_there() {
  // The frontend also calls the runtime, by a library beside the one that this code has within it.
  if (!dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD)) return false;
  if (!fe::cudnn_dlhandle) fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD);
  return fe::cudnn_dlhandle != nullptr;
}

}  // namespace troupe::tensor::cuda

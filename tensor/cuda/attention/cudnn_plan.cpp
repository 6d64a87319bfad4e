#include "tensor/cuda/attention/cudnn_plan.h"

#include <cudnn_frontend.h>
#include <dlfcn.h>
#include <fmt/format.h>

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
enum Id : std::int64_t {
  kQ = 1,
  kK,
  kV,
  kOut,
  kLse,
  kDout,
  kDq,
  kDk,
  kDv,
  kLengths,
  kQkvOffsets,
  kOutOffsets,
  kLseOffsets
};

/// The first version whose ragged form has group queries, offsets of 64 bits and empty sequences.
constexpr std::size_t kRaggedVersion = 90600;

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

/// The shape as cuDNN has it: [B, heads, S, D] with strides. Documents are sequences that begin at
/// offsets, so that the strides of the batch are of no account, and end at their own lengths.
class Layouts {
 public:
  Layouts(Graph& graph, const AttentionShape& s)
      : B(s.batch),
        S(s.seq_len),
        H(s.heads),
        K(s.kv_heads),
        D(s.head_dim),
        graph_(graph),
        causal_(s.causal),
        scale_(score_scale(s.scale, s.head_dim)) {
    if (!s.documents) return;
    lengths_ = numbers("lengths", kLengths, B, fe::DataType_t::INT32);
    qkv_offsets_ = numbers("qkv_offsets", kQkvOffsets, B + 1, fe::DataType_t::INT64);
    out_offsets_ = numbers("out_offsets", kOutOffsets, B + 1, fe::DataType_t::INT64);
    lse_offsets_ = numbers("lse_offsets", kLseOffsets, B + 1, fe::DataType_t::INT64);
  }

  /// A tensor saved as [B, heads, S, D], or of documents as columns.
  Attributes saved(const char* name, Id id, std::int64_t heads) const {
    if (lengths_) return graph_.tensor(columns(described(heads).set_name(name).set_uid(id)));
    return graph_.tensor(
        described(heads).set_name(name).set_uid(id).set_stride({heads * S * D, S * D, D, 1}));
  }
  /// A matrix [B*S, H*D].
  Attributes rows(const char* name, Id id) const {
    return graph_.tensor(rows(described(H).set_name(name).set_uid(id)));
  }
  Attributes lse() const {
    fe::graph::Tensor_attributes lse;
    return graph_.tensor(numbers_of_rows(lse.set_name("lse")));
  }
  void set_rows(const Attributes& output, Id id) const {
    rows(output->set_output(true).set_uid(id).set_dim({B, H, S, D}));
  }
  /// Columns of a matrix [B*S, (H + 2K)*D].
  void set_columns(const Attributes& output, Id id, std::int64_t heads) const {
    columns(output->set_output(true).set_uid(id).set_dim({B, heads, S, D}));
  }
  void set_lse(const Attributes& output) const { numbers_of_rows(output->set_output(true)); }

  /// What the options of both passes have alike.
  template <typename Options>
  void set_scores(Options& options) const {
    options.set_attn_scale(scale_);
    if (causal_) {
      options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
          .set_diagonal_band_right_bound(0);
    }
    if (lengths_) options.set_padding_mask(true).set_seq_len_q(lengths_).set_seq_len_kv(lengths_);
  }

  const std::int64_t B, S, H, K, D;

 private:
  using Tensor = fe::graph::Tensor_attributes;

  Attributes numbers(const char* name, Id id, std::int64_t count, fe::DataType_t type) const {
    return graph_.tensor(Tensor()
                             .set_name(name)
                             .set_uid(id)
                             .set_dim({count, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(type));
  }
  Tensor described(std::int64_t heads) const { return Tensor().set_dim({B, heads, S, D}); }
  Tensor& rows(Tensor& x) const {
    return x.set_stride({S * H * D, D, H * D, 1}).set_ragged_offset(out_offsets_);
  }
  Tensor& columns(Tensor& x) const {
    const std::int64_t row = (H + 2 * K) * D;
    return x.set_stride({S * row, D, row, 1}).set_ragged_offset(qkv_offsets_);
  }
  /// One for each row of each head, [B, H, S], or of documents [row, H].
  Tensor& numbers_of_rows(Tensor& x) const {
    return x.set_uid(kLse)
        .set_dim({B, H, S, 1})
        .set_stride(lengths_ ? Dims{H * S, 1, H, 1} : Dims{H * S, S, 1, 1})
        .set_ragged_offset(lse_offsets_)
        .set_data_type(fe::DataType_t::FLOAT);
  }

  Graph& graph_;
  const bool causal_;
  const float scale_;
  Attributes lengths_, qkv_offsets_, out_offsets_, lse_offsets_;  // null but of documents
};

void add_forward(Graph& graph, const AttentionShape& shape) {
  const Layouts at(graph, shape);
  auto options = fe::graph::SDPA_attributes().set_name("forward").set_generate_stats(true);
  at.set_scores(options);
  const auto [out, lse] = graph.sdpa(at.saved("q", kQ, at.H), at.saved("k", kK, at.K),
                                     at.saved("v", kV, at.K), options);
  at.set_rows(out, kOut);
  at.set_lse(lse);
}

void add_backward(Graph& graph, const AttentionShape& shape, bool deterministic) {
  const Layouts at(graph, shape);
  auto options = fe::graph::SDPA_backward_attributes()
                     .set_name("backward")
                     .set_deterministic_algorithm(deterministic);
  at.set_scores(options);
  const auto [dq, dk, dv] =
      graph.sdpa_backward(at.saved("q", kQ, at.H), at.saved("k", kK, at.K), at.saved("v", kV, at.K),
                          at.rows("out", kOut), at.rows("dout", kDout), at.lse(), options);
  at.set_columns(dq, kDq, at.H);
  at.set_columns(dk, kDk, at.K);
  at.set_columns(dv, kDv, at.K);
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
    if (shape_.documents && fe::detail::get_backend_version() < kRaggedVersion)
      return "documents need version 9.6 or later";
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
    if (shape_.documents) {
      addresses_[kLengths] = at.documents.lengths;
      addresses_[kQkvOffsets] = at.documents.qkv_offsets;
      addresses_[kOutOffsets] = at.documents.out_offsets;
      addresses_[kLseOffsets] = at.documents.lse_offsets;
    }
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

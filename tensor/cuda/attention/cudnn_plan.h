#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>

#include "tensor/device/attention.h"

namespace troupe::tensor::cuda {

/// Which way a plan goes.
enum class AttentionPass { forward, backward };

/// Which documents a run computes, as many as the shape has sequences: the length of each, 0 for
/// none, [B] int32, and where it begins, [B + 1] int64 elements from the address of the tensor: in
/// `saved` and dqkv, in out and dout, in lse. The host cannot read them.
struct DocumentAddresses {
  void* lengths = nullptr;
  void* qkv_offsets = nullptr;
  void* out_offsets = nullptr;
  void* lse_offsets = nullptr;
};

/// Where the tensors of an attention lie. q, k, v as KernelAttention saves them; dqkv[B*S,
/// (H + 2K)*D] and the others as Attention names them. A forward needs no gradients. Of documents
/// q, k and v are columns of rows as those of dqkv are, and lse has the H numbers of a row side by
/// side.
struct AttentionAddresses {
  void* q = nullptr;
  void* k = nullptr;
  void* v = nullptr;
  void* out = nullptr;
  void* lse = nullptr;
  void* dout = nullptr;
  void* dqkv = nullptr;
  DocumentAddresses documents;  ///< if the shape has documents
};

/// A GPU that need not be there.
struct DescribedGpu {
  int version = 90;  ///< its compute capability, ten times the major number and the minor one
  std::string json;  ///< cuDNN's description of it
};

/// One pass of attention without rotation, mask and dropout, by cuDNN. Its library must be open
/// already (see tensor/libraries/device_library.h). Takes about a second to make.
class CudnnPlan {
 public:
  struct Made {
    std::unique_ptr<CudnnPlan> plan;
    std::string refusal;  ///< why there is no plan, in cuDNN's words
  };
  /// For this process's GPU or, if `gpu` is given, for that one: such a plan tells its workspace
  /// and cannot run. `deterministic`: whether the backward gives the same bits each time. There is
  /// no plan for a shape that cuDNN refuses. Throws Error{internal} if cuDNN fails.
  static Made make(const AttentionShape& shape, AttentionPass pass, bool deterministic,
                   const DescribedGpu* gpu = nullptr);
  /// Whether cuDNN's library, and the shared runtime that its frontend calls, are open.
  static bool is_there();

  virtual ~CudnnPlan() = default;
  /// Memory that run() works in, on a 256-byte boundary.
  virtual std::size_t workspace_bytes() const = 0;
  /// Queues the pass. Layers share plans: any thread may call this at any time.
  virtual void run(cudaStream_t stream, const AttentionAddresses& at, void* workspace) = 0;
};

}  // namespace troupe::tensor::cuda

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tensor/device/peer_memory.h"

namespace troupe::tensor {

/// Bytes of the sums up to which one kernel that reads all parts is used. It sends each part whole
/// to all n members, (n - 1) times as much as a part has, where a reduce-scatter and an all-gather
/// send 2 (n - 1) / n times as much but meet twice: what a meeting costs, a few microseconds, is
/// the time of about so many bytes over NVLink. vLLM's all-reduce changes at the same size for 8
/// GPUs.
inline constexpr std::size_t kMostOneShotBytes = 256 << 10;
/// Members of a group that computes so: the GPUs of a machine that reach each other's memory.
inline constexpr int kMostOneShotMembers = 8;

/// What lies between a row-parallel product and the column-parallel one after it, for T tokens that
/// every member has. "act" is one of float32 and bfloat16, the same for all; all tensors begin on
/// 16-byte boundaries.
struct OneShotCall {
  Tensor bias;      // [C]     f32  of the product; empty: none
  Tensor residual;  // [T, C]  act
  Tensor sum;       // [T, C]  act  receives the parts' sum + bias + residual; may be residual
  Tensor weight;    // [C]     f32  of the norm; empty: there is none
  Tensor shift;     // [C]     f32  its bias, of a LayerNorm; empty: it is an RMSNorm
  float eps = 0;
  float plus = 0;  // what is added to the weights of an RMSNorm, as in Ops::rms_norm()
  Tensor mean;     // [T]     f32  receives what norms keep; empty for an RMSNorm
  Tensor rstd;     // [T]     f32
  Tensor normed;   // [T, C]  act  receives norm(sum); empty without a norm
};

/// The sum over few shards of their products' parts, bias, residual and norm, in one kernel that
/// reads the parts where the others computed them (the one-shot all-reduce of Megatron-core, vLLM
/// and TensorRT-LLM). The bits are those of ProcessGroup's all-reduce in member order,
/// Ops::add_bias() or accumulate(), and the norm of the rows (reduce_norm_gather() has the same).
///
/// All members make the same calls in the same order, with tensors of the same shape: part(), what
/// computes it, run(), all on one stream, always the same. The kernel waits for those of the others
/// on the device; the host never does.
class OneShotNorm {
 public:
  virtual ~OneShotNorm() = default;
  /// Whether sums [T, C] of this dtype and shape can be computed: they are few enough, and their
  /// rows whole packs of 16 bytes.
  static bool serves(DType dtype, const Shape& shape) {
    const auto row = static_cast<std::size_t>(shape[1]) * size_of(dtype);
    return row % 16 == 0 && static_cast<std::size_t>(shape[0]) * row <= kMostOneShotBytes;
  }

  /// Where this member's part of the next call's sum is to be written, [T, C] act.
  virtual Tensor part(DType dtype, const Shape& shape) = 0;
  /// Computes the call on what all members' parts are when the stream has come here. What was
  /// written into the part is arbitrary afterwards.
  virtual void run(Stream& stream, const OneShotCall& call) = 0;

  /// Lets every kernel end that waits for another member, now and later; what it was to write is
  /// arbitrary then. Callable from any thread.
  virtual void abort(const std::string& reason) = 0;
  /// Why the members do not compute any more; empty as long as they do. Callable from any thread.
  virtual std::string fault() const = 0;
};

/// A device that can compute so, beside what every Device does.
class OneShotDevice {
 public:
  /// Bytes that each member of a OneShotNorm shares.
  static constexpr std::size_t kShared = 2 * kMostOneShotBytes + (4 << 10);

  virtual ~OneShotDevice() = default;
  /// What the device's hardware is known by. Kernels of two processes on one GPU run in turns of
  /// milliseconds and must not wait for each other.
  virtual std::array<std::uint64_t, 2> hardware() const = 0;
  /// `memory` has pieces of kShared bytes, zeroed before any member calls this, of at most
  /// kMostOneShotMembers members. The device outlives what it returns, and that the streams' ops.
  virtual std::unique_ptr<OneShotNorm> make_one_shot_norm(PeerMemory memory) = 0;
};

}  // namespace troupe::tensor

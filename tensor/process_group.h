#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "tensor/tensor.h"

namespace troupe::tensor {

/// A collective that has been started.
class Work {
 public:
  virtual ~Work() = default;
  virtual bool done() const = 0;
  /// Blocks until done; throws Error{unavailable} if the group was aborted or the deadline passed,
  /// naming the collective, the group and the members that are missing.
  virtual void wait() = 0;
};

/// Members 0..size()-1 that compute together. Sums add the members' values in ascending member
/// order for every element, whatever their size and the algorithm, so that all members hold bitwise
/// equal results. All members call the same collectives in the same order, from one thread each.
/// Tensors stay valid until the work is done.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int size() const = 0;
  virtual int member() const = 0;

  /// x = sum over members of x, float32 or float64, in place.
  virtual std::unique_ptr<Work> all_reduce(const Tensor& x) = 0;
  /// out[size() * N] = the members' in[N], in member order.
  virtual std::unique_ptr<Work> all_gather(const Tensor& in, const Tensor& out) = 0;
  /// out[N] = this member's N elements of the sum of in[size() * N].
  virtual std::unique_ptr<Work> reduce_scatter(const Tensor& in, const Tensor& out) = 0;
  /// out block i = block `member()` of member i's in; both [size() * N].
  virtual std::unique_ptr<Work> all_to_all(const Tensor& in, const Tensor& out) = 0;
  /// x = root's x, on all members.
  virtual std::unique_ptr<Work> broadcast(const Tensor& x, int root) = 0;

  /// Ends every work, now and later, with an Error that holds `reason`. Callable from any thread.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace troupe::tensor

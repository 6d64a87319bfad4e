#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensor/device/process_group.h"
#include "transport/collectives/call_witness.h"

namespace troupe::test {

/// A call that a member makes by mistake, once: the others do not make it.
struct StrayCall {
  enum class Differs { operation, count, dtype };
  int member = 0;
  int after = 0;  ///< calls that this member makes first
  Differs differs = Differs::operation;
};

/// A device's own group whose members call what is asked for, but that one of them makes a stray
/// call: the last one once more, but for one of its properties. What is behind `hosts` keeps it in
/// mind as it does what is asked for.
class StrayingGroup final : public tensor::DeviceGroup {
 public:
  /// `stray` is done with when its `after` is below zero. It and `hosts` outlive the group.
  StrayingGroup(std::unique_ptr<tensor::DeviceGroup> own, tensor::ProcessGroup& hosts,
                StrayCall& stray)
      : witness_(dynamic_cast<transport::CallWitness*>(&hosts)),
        stray_(stray),
        own_(std::move(own)) {}

  int size() const override { return own_->size(); }
  int member() const override { return own_->member(); }
  bool is_ready() const override { return own_->is_ready(); }
  void abort(const std::string& reason) override { own_->abort(reason); }
  std::string fault() const override { return own_->fault(); }

  std::unique_ptr<tensor::Work> start(tensor::Stream& stream,
                                      const tensor::CollectiveCall& call) override {
    auto work = own_->start(stream, call);
    const bool may_stray = witness_ && member() == stray_.member && !call.out.empty();
    if (may_stray && stray_.after >= 0 && stray_.after-- == 0) make_stray_call(stream, call);
    return work;
  }

 private:
  void make_stray_call(tensor::Stream& stream, const tensor::CollectiveCall& call) {
    using Differs = StrayCall::Differs;
    using tensor::DType;
    constexpr std::size_t kWidest = sizeof(double);
    const tensor::Tensor& like = call.out.front();
    const bool halves = stray_.differs == Differs::count && like.num_elements() > 1;
    const std::int64_t count = halves ? like.num_elements() / 2 : like.num_elements();
    const DType other = like.dtype == DType::bf16 ? DType::f32 : DType::bf16;
    const DType dtype = stray_.differs == Differs::dtype ? other : like.dtype;
    const std::size_t bytes = static_cast<std::size_t>(count) * kWidest;
    in_ = stream.device().allocate(bytes, tensor::MemoryKind::device);
    out_ = stream.device().allocate(bytes * static_cast<std::size_t>(size()),
                                    tensor::MemoryKind::device);
    const tensor::Tensor x = in_.view(dtype, {count}), all = out_.view(dtype, {count * size()});
    tensor::CollectiveCall stray{.operation = tensor::Operation::all_reduce, .in = {}, .out = {}};
    stray.out = {&x, 1};
    if (stray_.differs == Differs::operation)
      stray = {.operation = tensor::Operation::all_gather, .in = {&x, 1}, .out = {&all, 1}};
    witness_->record(stray);
    own_->start(stream, stray)->wait(stream);
  }

  transport::CallWitness* const witness_;
  StrayCall& stray_;
  tensor::Buffer in_, out_;  ///< of the stray call
  const std::unique_ptr<tensor::DeviceGroup> own_;
};

}  // namespace troupe::test

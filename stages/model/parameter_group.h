#pragma once

#include <optional>
#include <span>
#include <string>

namespace troupe::stages {

/// What the optimizer does with a parameter.
struct UpdateRule {
  double lr_scale = 1;                   ///< times the learning rate of the step
  std::optional<double> weight_decay{};  ///< in place of the step's
  /// Never updated: the parameter has no moments, and its gradient does not count in the norm.
  bool frozen = false;
  /// Whether it is of the base of an adapter, which is frozen: its files have it, so that it is no
  /// part of the training state, and has no gradient.
  bool is_base = false;
  bool operator==(const UpdateRule&) const = default;
};

/// Parameters with a rule of their own.
struct ParameterGroup {
  /// A glob (fnmatch(3): *, ? and [...], where * also stands for dots) of names of tensors as files
  /// have them (StoredAs::tensor), which are those of PyTorch's named_parameters().
  std::string match;
  /// A weight decay that is given here holds for all of the group, norms and biases too.
  UpdateRule update{};
  bool operator==(const ParameterGroup&) const = default;

  bool matches(const std::string& tensor) const;
};

/// The group of a tensor, the first that matches; null if none does.
const ParameterGroup* group_of(const std::string& tensor, std::span<const ParameterGroup> groups);

}  // namespace troupe::stages

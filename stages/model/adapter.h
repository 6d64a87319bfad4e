#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Low-rank adapters (LoRA, arXiv 2106.09685), by the names of the PEFT library.

namespace troupe::tensor {
struct FieldFault;
}

namespace troupe::stages {

struct ModelConfig;
struct ParameterInfo;

/// Matrices beside some of a model's: a product of weight W gives W x + scale() * B (A d(x)), where
/// A is [rank, in], B is [out, rank] and d drops inputs in training. Only A and B are trained; all
/// other parameters are frozen.
struct Adapter {
  std::int64_t rank = 0;
  double alpha = 0;
  double dropout = 0;   ///< probability, of the inputs of A
  bool rslora = false;  ///< scale by the root of the rank (arXiv 2312.03732)
  /// Last names of the modules that have one, sorted, each once: those of PyTorch's modules, so
  /// that what files hold in one tensor is one target, with one A.
  std::vector<std::string> targets{};
  /// The directory with the weights of the model that it is for.
  std::string base{};
  /// alpha / rank, or alpha / sqrt(rank).
  double scale() const;
  bool operator==(const Adapter&) const = default;
};

/// The names of modules that can be targets: every linear of the layers, but those of experts;
/// sorted, each once.
std::vector<std::string> adapter_targets(const ModelConfig& model);

/// Why the model's adapter, if it has one, cannot be: empty if it can, else the member at fault and
/// one sentence with the rule, its numbers, and the nearest valid choice.
tensor::FieldFault check_adapter(const ModelConfig& model);

/// Adds the adapter's matrices to the canonical list of a model without one. Right after the
/// weights and biases of a product come those of its targets, in the order of their weights: the
/// As of all, one product of them, then the Bs of all, which are joined too. A fused tensor is one
/// target: one A, and a B for each of its parts. They belong to the layer and module of their
/// product, with fields lora_a and lora_b of the first one, out_lora_a and out_lora_b of the last.
/// Products divided by rows: A is whole on every shard, and its gradient a part of a sum; B is
/// divided as the weight. Divided by columns: A is divided so, B is whole, and its gradient a part
/// of a sum, because each shard adds B A x of its own columns to its part of the product.
void add_adapter(const Adapter& adapter, std::vector<ParameterInfo>& parameters);

/// Whether the parameter is an adapter's A or B.
bool is_adapter(const ParameterInfo& info);

/// What the names of an adapter's tensors begin with, before the module's name.
inline constexpr const char* kAdapterPrefix = "base_model.model.";

}  // namespace troupe::stages

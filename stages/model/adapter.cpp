#include "stages/model/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "stages/model/model_config.h"

namespace troupe::stages {
namespace {

using tensor::FieldFault;
using tensor::Shape;

constexpr std::string_view kWeightEnding = ".weight";

/// The name of the module of a weight, as files have it; empty if it is none.
std::string_view module_of(const ParameterInfo& info) {
  const std::string_view tensor = info.stored.tensor;
  if (!tensor.ends_with(kWeightEnding)) return {};
  return tensor.substr(0, tensor.size() - kWeightEnding.size());
}

std::string_view last_name(std::string_view module) {
  return module.substr(module.find_last_of('.') + 1);
}

bool is_linear(const ParameterInfo& info) {
  return (info.module == Module::attention || info.module == Module::feed_forward) &&
         (info.field == Field::weight || info.field == Field::out_weight);
}

/// The weights of one product: some that follow each other.
using Product = std::span<const ParameterInfo>;

/// The matrices of one product, which is the first or the last of its module.
class ProductAdapters {
 public:
  ProductAdapters(const Adapter& adapter, Product weights) : adapter_(adapter), weights_(weights) {}

  std::vector<ParameterInfo> make() {
    for (std::size_t i = 0; i < weights_.size(); ++i)
      if (is_target(weights_[i])) add(static_cast<int>(i));
    std::ranges::move(bs_, std::back_inserter(as_));
    return std::move(as_);
  }

 private:
  bool is_target(const ParameterInfo& info) const {
    return info.expert < 0 &&
           std::ranges::binary_search(adapter_.targets, last_name(module_of(info)));
  }
  bool is_first() const { return weights_.front().field == Field::weight; }

  /// The B of a weight, and before it the A of its tensor.
  void add(int part) {
    const ParameterInfo& weight = weights_[static_cast<std::size_t>(part)];
    const bool by_columns = weight.split == Split::columns;
    if (as_.empty() || as_.back().stored.tensor != tensor_of(weight, 'A')) {
      ParameterInfo& a = add_matrix(as_, weight, 'A', {adapter_.rank, weight.shape[1]});
      a.field = is_first() ? Field::lora_a : Field::out_lora_a;
      a.split = by_columns ? Split::columns : Split::heads;
      a.part = part;
      a.stored.rows = adapter_.rank;
    }
    ParameterInfo& b = add_matrix(bs_, weight, 'B', {weight.shape[0], adapter_.rank});
    b.field = is_first() ? Field::lora_b : Field::out_lora_b;
    b.split = by_columns ? Split::heads : weight.split;
    b.part = part;
    b.stored.first_row = weight.stored.first_row;
    b.stored.rows = weight.stored.rows;
    b.stored.turn_rows = weight.stored.turn_rows;
    b.stored.turn_stride = weight.stored.turn_stride;
    // A part of a fused tensor keeps its name within it.
    const std::string_view own = std::string_view(weight.name).substr(module_of(weight).size());
    b.name = fmt::format("{}{}.lora_B{}", kAdapterPrefix, module_of(weight), own);
  }
  static std::string tensor_of(const ParameterInfo& weight, char matrix) {
    return fmt::format("{}{}.lora_{}.weight", kAdapterPrefix, module_of(weight), matrix);
  }
  static ParameterInfo& add_matrix(std::vector<ParameterInfo>& list, const ParameterInfo& weight,
                                   char matrix, const Shape& shape) {
    const std::string name = tensor_of(weight, matrix);
    return list.emplace_back(ParameterInfo{.name = name,
                                           .shape = shape,
                                           .layer = weight.layer,
                                           .module = weight.module,
                                           .is_joined = !list.empty(),
                                           .stored = {.tensor = name}});
  }

  const Adapter& adapter_;
  const Product weights_;
  std::vector<ParameterInfo> as_, bs_;
};

/// The end of what belongs to the product whose weights end at `at`: its biases follow.
std::size_t end_of_biases(std::span<const ParameterInfo> all, std::size_t at) {
  while (at < all.size() && (all[at].field == Field::bias || all[at].field == Field::out_bias) &&
         all[at].layer == all[at - 1].layer && all[at].module == all[at - 1].module)
    ++at;
  return at;
}

/// The end of the weights of the product that begins at `at`.
std::size_t end_of_weights(std::span<const ParameterInfo> all, std::size_t at) {
  const std::size_t begin = at++;
  while (at < all.size() && all[at].is_joined && all[at].field == all[begin].field) ++at;
  return at;
}

/// The names of linears of the layers, with whether one of them is an expert's.
std::map<std::string, bool> linears_of(const ModelConfig& model) {
  ModelConfig base = model;
  base.adapter.reset();
  std::map<std::string, bool> names;
  for (const ParameterInfo& info : parameters_of(base))
    if (is_linear(info)) names[std::string(last_name(module_of(info)))] |= info.expert >= 0;
  return names;
}

FieldFault check_targets(const ModelConfig& model) {
  const Adapter& adapter = *model.adapter;
  const auto names = linears_of(model);
  const std::string known = fmt::format("{}", fmt::join(adapter_targets(model), ", "));
  if (adapter.targets.empty())
    return {&adapter.targets, fmt::format("targets must not be empty; the model has {}", known)};
  for (const std::string& target : adapter.targets) {
    const auto found = names.find(target);
    if (found == names.end())
      return {
          &adapter.targets,
          fmt::format("targets has '{}', which no layer has; the layers have {}", target, known)};
    if (found->second)
      return {&adapter.targets,
              fmt::format("targets has '{}', a matrix of each expert, which cannot have an adapter;"
                          " without it there are {}",
                          target, known)};
  }
  return {};
}

}  // namespace

double Adapter::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(r) : r);
}

bool is_adapter(const ParameterInfo& info) {
  return info.part >= 0;
}

std::vector<std::string> adapter_targets(const ModelConfig& model) {
  std::vector<std::string> targets;
  for (const auto& [name, is_of_experts] : linears_of(model))
    if (!is_of_experts) targets.push_back(name);
  return targets;
}

FieldFault check_adapter(const ModelConfig& model) {
  if (!model.adapter) return {};
  const Adapter& adapter = *model.adapter;
  const std::int64_t largest = std::max(model.hidden_size, model.intermediate_size);
  if (adapter.rank < 1 || adapter.rank > largest)
    return {&adapter.rank,
            fmt::format("rank = {} must lie between 1 and {}; usual: 8", adapter.rank, largest)};
  if (!(adapter.alpha > 0 && std::isfinite(adapter.alpha)))
    return {&adapter.alpha,
            fmt::format("alpha = {} must be above 0; usual: {}", adapter.alpha, 2 * adapter.rank)};
  if (!(adapter.dropout >= 0 && adapter.dropout < 1))
    return {&adapter.dropout,
            fmt::format("dropout = {} must be at least 0 and below 1; usual: 0", adapter.dropout)};
  return check_targets(model);
}

void add_adapter(const Adapter& adapter, std::vector<ParameterInfo>& parameters) {
  std::vector<ParameterInfo> all;
  for (std::size_t at = 0; at < parameters.size();) {
    if (!is_linear(parameters[at])) {
      all.push_back(parameters[at++]);
      continue;
    }
    const std::size_t weights = end_of_weights(parameters, at);
    const std::size_t end = end_of_biases(parameters, weights);
    std::copy(parameters.begin() + static_cast<std::ptrdiff_t>(at),
              parameters.begin() + static_cast<std::ptrdiff_t>(end), std::back_inserter(all));
    auto added = ProductAdapters(adapter, Product(parameters).subspan(at, weights - at)).make();
    std::ranges::move(added, std::back_inserter(all));
    at = end;
  }
  parameters = std::move(all);
}

}  // namespace troupe::stages

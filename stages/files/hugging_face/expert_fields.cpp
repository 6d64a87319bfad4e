#include "stages/files/hugging_face/expert_fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::stages {
namespace {

using nlohmann::json;

constexpr const char* kCount = "num_local_experts";
constexpr const char* kOldCount = "num_experts";
constexpr const char* kPerToken = "num_experts_per_tok";
constexpr const char* kWidth = "moe_intermediate_size";
constexpr const char* kNormalizes = "norm_topk_prob";
constexpr const char* kBalances = "output_router_logits";
constexpr const char* kBalance = "router_aux_loss_coef";
constexpr double kUsualBalance = 0.001;
constexpr const char* kDenseLayers = "mlp_only_layers";
constexpr const char* kSparseStep = "decoder_sparse_step";

/// Whether files name the width of an expert beside intermediate_size, and let weights be as the
/// router's probabilities are.
bool has_own_width(const ModelConfig& model) {
  return model.kind != ModelKind::mixtral;
}

std::int64_t read_count(ConfigFields& fields, std::int64_t fallback) {
  const auto count = fields.find<std::int64_t>(kCount);
  const auto old = fields.find<std::int64_t>(kOldCount);
  if (count && old && *count != *old)
    fields.refuse(kOldCount, fmt::format("{} is {}; expected one number of experts in all layers",
                                         kCount, *count));
  return count.value_or(old.value_or(fallback));
}

}  // namespace

void read_expert_fields(ConfigFields& fields, const ModelConfig& defaults, ModelConfig& model) {
  Experts& experts = model.experts;
  experts = defaults.experts;
  experts.count = read_count(fields, experts.count);
  experts.per_token = fields.get(kPerToken, experts.per_token);
  if (has_own_width(model)) {
    experts.width = fields.get(kWidth, experts.width);
    experts.normalizes = fields.get(kNormalizes, experts.normalizes);
  } else {
    experts.width = model.intermediate_size;
  }
  const double coef = fields.get(kBalance, kUsualBalance);
  experts.aux_loss_coef = fields.get(kBalances, false) ? coef : 0;
}

json expert_fields_of(const ModelConfig& model) {
  const Experts& experts = model.experts;
  const bool balances = experts.aux_loss_coef > 0;
  json fields{{kPerToken, experts.per_token},
              {kBalances, balances},
              {kBalance, balances ? experts.aux_loss_coef : kUsualBalance}};
  // The name that each kind had first, which all versions read.
  fields[has_own_width(model) ? kOldCount : kCount] = experts.count;
  if (!has_own_width(model)) return fields;
  fields[kWidth] = experts.width;
  fields[kNormalizes] = experts.normalizes;
  return fields;
}

void write_balance(const ModelConfig& model, nlohmann::ordered_json& config) {
  const double coef = model.experts.aux_loss_coef;
  const double was = config.value(kBalances, false) ? config.value(kBalance, kUsualBalance) : 0.0;
  if (model.experts.count == 0 || was == coef) return;
  config[kBalances] = coef > 0;
  if (coef > 0) config[kBalance] = coef;
}

void read_routed_layers(ConfigFields& fields, ModelConfig& model) {
  Experts& experts = model.experts;
  experts.sparse_step = fields.get<std::int64_t>(kSparseStep, 1);
  if (experts.sparse_step < 1) fields.refuse(kSparseStep, "expected at least 1");
  experts.dense_layers.clear();
  const json& list = fields.value(kDenseLayers);
  if (list.is_null()) return;
  const auto is_layer = [&](const json& item) {
    return item.is_number_integer() && item >= 0 && item < model.num_hidden_layers;
  };
  if (!list.is_array() || !std::ranges::all_of(list, is_layer))
    fields.refuse(kDenseLayers, fmt::format("expected a list of layers, counted from 0, of "
                                            "num_hidden_layers = {}",
                                            model.num_hidden_layers));
  for (const json& layer : list) experts.dense_layers.push_back(layer.get<int>());
}

json routed_layers_of(const ModelConfig& model) {
  return {{kDenseLayers, model.experts.dense_layers}, {kSparseStep, model.experts.sparse_step}};
}

}  // namespace troupe::stages

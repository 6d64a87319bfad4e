#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/checkpoint/checkpoint_content.h"
#include "stages/files/checkpoint/checkpoint_state.h"
#include "stages/files/hugging_face/layer_fields.h"
#include "stages/files/peft/low_rank.h"
#include "stages/files/safetensors/stored_tensor.h"
#include "stages/storage/data_error.h"
#include "stages/storage/parallel_jobs.h"
#include "tensor/device/host_copies.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

/// A region of a parameter that is read from one tensor of the files.
struct Reading {
  const TensorMap& tensors;
  std::string name;
  const ParameterInfo& info;
  tensor::Region region;
  tensor::Tensor out;
  std::uint64_t bytes;              ///< that it counts for progress
  std::optional<LowRank> merged{};  ///< what an adapter adds to it
};

/// Fills what is read.
void read_tensor(const Reading& reading, tensor::HostCopies& copies) {
  const auto& [tensors, name, info, region, out, bytes, merged] = reading;
  const auto& [file, entry] = find_tensor(tensors, name, stored_tensor(info).shape);
  const std::int64_t elements = region.num_elements();
  if (elements == 0) return;
  TROUPE_ASSERT(out.data != nullptr && out.dtype == tensor::DType::f32);
  TROUPE_ASSERT(out.num_elements() >= elements);
  copies.fill({out.data, out.dtype, {elements}}, [&](const tensor::Tensor& host) {
    std::span<float> rest(host.as<float>(), static_cast<std::size_t>(elements));
    for (const tensor::Region& piece : stored_regions(info, region)) {
      const auto floats = rest.first(static_cast<std::size_t>(piece.num_elements()));
      rest = rest.subspan(floats.size());
      file->read_floats(*entry, piece, floats, stored_order(info));
      const auto [row, rows, column, columns] = piece;
      if (merged)
        add_low_rank(*merged,
                     info.stored.transposed ? tensor::Region{column, columns, row, rows} : piece,
                     Order::rows, floats);
    }
  });
}

/// The checkpoint's parameter that a stage's is to be filled from. Throws Error{data} if the model
/// has none of this name and shape.
const ParameterInfo& info_of(const std::map<std::string, ParameterInfo>& infos,
                             const Parameter& parameter) {
  const auto found = infos.find(parameter.name);
  if (found == infos.end()) throw data_error("parameter {} is missing", parameter.name);
  const tensor::Shape &has = found->second.shape, &wanted = parameter.whole_shape;
  if (has != wanted)
    throw data_error("parameter {} is [{}], expected [{}]", parameter.name,
                     fmt::join(has.dims(), ", "), fmt::join(wanted.dims(), ", "));
  return found->second;
}

/// Bytes of a region of a parameter, as they are in memory.
std::uint64_t bytes_of(const tensor::Region& region) {
  return static_cast<std::uint64_t>(region.num_elements()) * sizeof(float);
}

/// Bytes of the weights that are kept of these parameters.
std::uint64_t bytes_of(std::span<const Parameter> parameters) {
  std::uint64_t bytes = 0;
  for (const Parameter& parameter : parameters) {
    bytes += bytes_of(parameter.region_of(parameter.slice));
    if (parameter.twin_slice >= 0) bytes += bytes_of(parameter.region_of(parameter.twin_slice));
  }
  return bytes;
}

bool has_adapter(std::span<const Parameter> parameters) {
  return std::ranges::any_of(parameters,
                             [](const Parameter& p) { return p.name.starts_with(kAdapterPrefix); });
}

/// What the adapter adds to the parameter, if there is one.
std::optional<LowRank> low_rank_of(const CheckpointContent& content, const ParameterInfo& info) {
  if (!content.info.adapter) return std::nullopt;
  return find_low_rank(content.adapter, info.stored.tensor, content.info.adapter->scale());
}

/// What a stage keeps of the parameter, of its moments too if there is an `optimizer`. Frozen
/// parameters have none, and count as if they had.
void add_readings(const CheckpointContent& content, const ParameterInfo& info,
                  const Parameter& parameter, bool without_state, std::vector<Reading>& readings) {
  const std::string& name = info.stored.tensor;
  const TensorMap& weights = is_adapter(info) ? content.adapter : content.weights;
  const auto add_slice = [&](int slice, const tensor::Tensor& weight, const tensor::Tensor& exp_avg,
                             const tensor::Tensor& exp_avg_sq) {
    const tensor::Region kept = parameter.region_of(slice);
    const bool has_moments = !without_state && !parameter.update.frozen;
    readings.push_back({weights, name, info, kept, weight,
                        bytes_of(kept) * (without_state || has_moments ? 1 : 3)});
    if (!has_moments) return;
    readings.push_back(
        {content.optimizer, exp_avg_name(name), info, kept, exp_avg, bytes_of(kept)});
    readings.push_back(
        {content.optimizer, exp_avg_sq_name(name), info, kept, exp_avg_sq, bytes_of(kept)});
  };
  add_slice(parameter.slice, parameter.kept_weight, parameter.exp_avg, parameter.exp_avg_sq);
  if (parameter.twin_slice >= 0)
    add_slice(parameter.twin_slice, parameter.twin_weight, parameter.twin_exp_avg,
              parameter.twin_exp_avg_sq);
}

/// How many of the threads may read, each through memory of its own for the largest tensor.
int threads_within_memory(int threads, const std::vector<Reading>& readings,
                          const tensor::Device& device) {
  constexpr std::uint64_t kHostBytes = std::uint64_t{2} << 30;
  std::uint64_t largest = 1;
  for (const Reading& reading : readings) largest = std::max(largest, bytes_of(reading.region));
  if (device.host_reads_memory()) return threads;  // which then reads in place
  return std::clamp(static_cast<int>(kHostBytes / largest), 1, threads);
}

/// Reads all, and adds up how far it is.
void read_all(const std::vector<Reading>& readings, tensor::Device& device, int threads,
              ProgressSum& sum) {
  carry_out(threads_within_memory(threads, readings, device), readings.size(), [&]() -> Job {
    const auto copies = std::make_shared<tensor::HostCopies>(device);
    return [&, copies](std::size_t number) {
      read_tensor(readings[number], *copies);
      copies->synchronize();
      sum.add(readings[number].bytes);
    };
  });
  sum.finish();
}

/// What decides what weights mean; the router's losses may change on the way.
void compare_experts(const Experts& own, const Experts& wanted, const auto& compare) {
  compare("num_experts", own.count, wanted.count);
  compare("num_experts_per_tok", own.per_token, wanted.per_token);
  compare("moe_intermediate_size", own.width, wanted.width);
  compare("norm_topk_prob", own.normalizes, wanted.normalizes);
}

class OpenCheckpoint final : public CheckpointReader {
 public:
  OpenCheckpoint(fs::path dir, CheckpointContent content)
      : dir_(std::move(dir)), content_(std::move(content)) {}

  const CheckpointInfo& info() const override { return content_.info; }
  std::string tokenizer() const override { return content_.tokenizer; }
  ModelSource source() const override {
    return about(dir_, [this] { return source_of(content_, dir_); });
  }
  void check_model(const ModelConfig& model) const override;

  void verify(const Progress& progress, int threads) const override {
    struct Part {
      const SafetensorsFile& file;
      const TensorEntry& entry;
      const RegionSum& expected;
    };
    std::vector<Part> parts;
    std::uint64_t total = 0;
    for (const auto* files :
         {&content_.weights_files, &content_.adapter_files, &content_.optimizer_files})
      for (const SafetensorsFile& file : *files) {
        total += file.bytes_with_sums();
        for (const TensorEntry& entry : file.tensors())
          for (const RegionSum& expected : entry.sums) parts.push_back({file, entry, expected});
      }
    ProgressSum verified(progress, total);
    about(dir_, [&] {
      carry_out(threads, parts.size(), [&]() -> Job {
        return [&](std::size_t number) {
          const auto& [file, entry, expected] = parts[number];
          file.verify(entry, expected, verified);
        };
      });
      verified.finish();
    });
  }

  void load(Stage& stage, bool weights_only, const Progress& progress, int threads) const override {
    const auto infos = parameters_by_name(content_.info.trained_model());
    const bool without_state = weights_only || content_.optimizer.empty();
    const bool merges = content_.info.adapter && !has_adapter(stage.parameters());
    about(dir_, [&] {
      std::vector<Reading> readings;
      for (const Parameter& parameter : stage.parameters()) {
        const bool is_base = !parameter.name.starts_with(kAdapterPrefix);
        if (is_base ? content_.weights.empty() : !content_.info.adapter) continue;
        const ParameterInfo& info = info_of(infos, parameter);
        const std::size_t before = readings.size();
        add_readings(content_, info, parameter, without_state, readings);
        for (std::size_t i = before; merges && i < readings.size(); ++i)
          readings[i].merged = low_rank_of(content_, info);
      }
      std::uint64_t total = 0;
      for (const Reading& reading : readings) total += reading.bytes;
      ProgressSum loaded(progress, total);
      read_all(readings, stage.stream_of(Pass::forward).device(), threads, loaded);
    });
    stage.weights_changed();
  }

  void load_weights(std::span<const Parameter> parameters, tensor::Device& device,
                    const Progress& progress, int threads) const override {
    ProgressSum loaded(progress, bytes_of(parameters));
    const auto infos = parameters_by_name(content_.info.model);
    about(dir_, [&] {
      std::vector<Reading> readings;
      for (const Parameter& parameter : parameters) {
        const ParameterInfo& info = info_of(infos, parameter);
        readings.push_back({content_.weights, info.stored.tensor, info, parameter.region,
                            parameter.weight, bytes_of(parameter.region),
                            low_rank_of(content_, info)});
      }
      read_all(readings, device, threads, loaded);
    });
  }

 private:
  fs::path dir_;
  CheckpointContent content_;
};

/// Calls compare(field, saved, wanted) for the fields that both have.
template <typename Compare>
void compare_rotary(const tensor::Rotary& own, const tensor::Rotary& wanted,
                    const Compare& compare) {
  compare("rope_type", std::string_view(name_of(own.type)), std::string_view(name_of(wanted.type)));
  compare("rope_theta", own.theta, wanted.theta);
  for (const auto& [name, member] : tensor::kRotaryNumbers)
    if (reads(own.type, name)) compare("rope_" + std::string(name), own.*member, wanted.*member);
  if (reads(own.type, "original_max_position_embeddings"))
    compare("rope_original_max_position_embeddings", own.original_max_position_embeddings,
            wanted.original_max_position_embeddings);
  if (reads(own.type, "truncate")) compare("rope_truncate", own.truncate, wanted.truncate);
}

void OpenCheckpoint::check_model(const ModelConfig& model) const {
  const ModelConfig& own = content_.info.model;
  const auto compare = [this](const std::string& field, const auto& saved, const auto& wanted) {
    if (saved != wanted)
      throw data_error("checkpoint {}: its {} is {}, the manifest's is {}", dir_.string(), field,
                       saved, wanted);
  };
  compare("kind", std::string_view(name_of(own.kind)), std::string_view(name_of(model.kind)));
  compare("hidden_size", own.hidden_size, model.hidden_size);
  compare("intermediate_size", own.intermediate_size, model.intermediate_size);
  compare("num_hidden_layers", own.num_hidden_layers, model.num_hidden_layers);
  compare("num_attention_heads", own.num_attention_heads, model.num_attention_heads);
  compare("num_key_value_heads", own.num_key_value_heads, model.num_key_value_heads);
  compare("head_dim", own.head_dim, model.head_dim);
  compare("vocab_size", own.vocab_size, model.vocab_size);
  compare("value_head", own.value_head, model.value_head);
  compare("tie_word_embeddings", own.tie_word_embeddings, model.tie_word_embeddings);
  const KindTraits& traits = traits_of(model.kind);
  if (traits.has_layer_norm)
    compare("layer_norm_epsilon", own.layer_norm_epsilon, model.layer_norm_epsilon);
  else
    compare("rms_norm_eps", own.rms_norm_eps, model.rms_norm_eps);
  if (traits.chooses_attention_bias)
    compare("attention_bias", own.attention_bias, model.attention_bias);
  if (traits.chooses_mlp_bias) compare("mlp_bias", own.mlp_bias, model.mlp_bias);
  if (traits.learns_positions)
    compare("max_position_embeddings", own.max_position_embeddings, model.max_position_embeddings);
  else
    compare_rotary(own.rotary, model.rotary, compare);
  if (traits.has_experts) compare_experts(own.experts, model.experts, compare);
  compare("config", layer_text_of(own), layer_text_of(model));
  if (!content_.info.adapter || !model.adapter) return;
  const Adapter &saved = *content_.info.adapter, &wanted = *model.adapter;
  compare("adapter.rank", saved.rank, wanted.rank);
  compare("adapter.alpha", saved.alpha, wanted.alpha);
  compare("adapter.rslora", saved.rslora, wanted.rslora);
  compare("adapter.targets", fmt::format("{}", fmt::join(saved.targets, ", ")),
          fmt::format("{}", fmt::join(wanted.targets, ", ")));
}

}  // namespace

std::unique_ptr<CheckpointReader> CheckpointReader::open(const fs::path& dir,
                                                         const fs::path& base) {
  return std::make_unique<OpenCheckpoint>(dir, open_content(dir, base));
}

std::unique_ptr<CheckpointReader> CheckpointReader::open_adapter(const fs::path& dir,
                                                                 const ModelConfig& model) {
  ModelConfig base = model;
  base.adapter.reset();
  return std::make_unique<OpenCheckpoint>(dir, open_adapter_content(dir, std::move(base)));
}

}  // namespace troupe::stages

#include "stages/decoder/parameters/module_parameters.h"

namespace troupe::stages {

ModuleParameters::ModuleParameters(const ModelConfig& model, const ParameterLayout& layout)
    : num_layers_(static_cast<int>(model.num_hidden_layers)),
      is_tied_(model.tie_word_embeddings),
      head_use_(layout.head_use) {
  for (const ParameterLayout::Entry& entry : layout.entries)
    entries_.push_back({entry.info.module, entry.info.field, entry.info.layer, entry.bucket});
}

std::vector<int> ModuleParameters::numbers_of(Module module, std::optional<Field> field,
                                              int layer) const {
  if (module == Module::head && is_tied_ && field.value_or(Field::weight) == Field::weight)
    return numbers_of(Module::embedding, Field::weight, layer);
  std::vector<int> numbers;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const bool is_of_layer = entry.layer >= 0 && entry.layer < num_layers_;
    if (entry.module == module && entry.field == field.value_or(entry.field) &&
        (!is_of_layer || entry.layer == layer))
      numbers.push_back(static_cast<int>(i));
  }
  return numbers;
}

std::optional<std::size_t> ModuleParameters::table() const {
  const std::vector<int> numbers = numbers_of(Module::embedding, Field::weight);
  if (numbers.empty()) return std::nullopt;
  return static_cast<std::size_t>(numbers.front());
}

std::vector<int> ModuleParameters::buckets_of(Module module, int layer) const {
  if (module == Module::head && head_use_ >= 0) return {head_use_};
  std::vector<int> buckets;
  for (const int parameter : numbers_of(module, std::nullopt, layer)) {
    const int bucket = entries_[static_cast<std::size_t>(parameter)].bucket;
    if (buckets.empty() || buckets.back() != bucket) buckets.push_back(bucket);
  }
  return buckets;
}

}  // namespace troupe::stages

#include "launch/manifest/checks/parameter_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <span>

#include "launch/host/suggest.h"
#include "stages/files/safetensors/stored_tensor.h"

namespace troupe::launch {
namespace {

/// The name of a tensor with a * for the number of its layer.
std::string without_layer(const stages::ParameterInfo& info) {
  std::string name = info.stored.tensor;
  const std::string number = fmt::format(".{}.", info.layer);
  const std::size_t at = info.layer < 0 ? std::string::npos : name.find(number);
  if (at != std::string::npos) name.replace(at, number.size(), ".*.");
  return name;
}

/// The words of a glob or a name, which dots, underscores and wildcards separate.
std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kSeparators = "._*?[]";
  std::vector<std::string_view> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kSeparators), text.size()));
    if (text.empty()) return words;
    words.push_back(text.substr(0, text.find_first_of(kSeparators)));
    text.remove_prefix(words.back().size());
  }
}

/// How far a glob is from a name: the sum of its words' distances to the nearest word of the name.
/// The two differ in length too much for the distance of the whole texts to tell anything.
std::size_t distance(std::string_view glob, std::string_view name) {
  const auto words = words_of(name);
  std::size_t sum = 0;
  for (const std::string_view word : words_of(glob.substr(0, 256)))
    sum += edit_distance(word, nearest(word, words));
  return sum;
}

/// The three names of the model that are nearest to a glob which matches none.
std::string nearest_names(const std::string& match, const stages::ModelConfig& model) {
  std::vector<std::string> names;
  for (const stages::ParameterInfo& info : stages::parameters_of(model))
    if (std::string name = without_layer(info);
        (!model.adapter || is_adapter(info)) && std::ranges::find(names, name) == names.end())
      names.push_back(std::move(name));
  std::ranges::stable_sort(names, {},
                           [&](const std::string& name) { return distance(match, name); });
  const std::vector<std::string_view> all(names.begin(), names.end());
  return quoted_list(std::span(all).first(std::min<std::size_t>(3, all.size())));
}

/// Why a group cannot be; empty if it can.
std::string fault_of(const GroupCount& count, const stages::ModelConfig& model) {
  const auto& [match, update] = count.group;
  if (update.frozen && (update.lr_scale != 1 || update.weight_decay))
    return fmt::format(
        "'{}' is frozen, so it has neither lr_scale nor weight_decay; leave them out", match);
  if (count.tensors > 0) return "";
  const auto tensors = stages::saved_tensors(model);
  const auto taken = std::ranges::find_if(
      tensors, [&](const auto& tensor) { return count.group.matches(tensor.name); });
  if (taken != tensors.end())
    return fmt::format(
        "'{}' matches only what groups before it match, as '{}' does {}; the first group that "
        "matches decides, so put it before that one",
        match, stages::group_of(taken->name, model.groups)->match, taken->name);
  return fmt::format("'{}' matches no parameter of the model; the nearest names are {}", match,
                     nearest_names(match, model));
}

std::set<std::string> frozen_of(const stages::ModelConfig& model) {
  std::set<std::string> names;
  for (const stages::StoredTensor& tensor : stages::saved_tensors(model))
    if (tensor.frozen) names.insert(tensor.name);
  return names;
}

}  // namespace

std::vector<GroupCount> count_groups(const stages::ModelConfig& model) {
  std::vector<GroupCount> counts;
  for (const stages::ParameterGroup& group : model.groups) counts.push_back({.group = group});
  for (const stages::StoredTensor& tensor : stages::saved_tensors(model))
    if (const auto* group = stages::group_of(tensor.name, model.groups)) {
      GroupCount& count = counts[static_cast<std::size_t>(group - model.groups.data())];
      ++count.tensors;
      count.parameters += tensor.shape.num_elements();
    }
  return counts;
}

void check_groups(const Manifest& m) {
  for (const GroupCount& count : count_groups(m->model))
    if (const std::string fault = fault_of(count, m->model); !fault.empty())
      m.fail(m->model.groups, "optimizer.group: {}", fault);
  if (stages::num_trained_parameters(m->model) == 0)
    m.fail(
        m->model.groups,
        "optimizer.group: all parameters are frozen, so that nothing trains; leave some to train");
}

FrozenDifference compare_frozen(const stages::ModelConfig& now, const stages::ModelConfig& before) {
  const std::set<std::string> is = frozen_of(now), was = frozen_of(before);
  FrozenDifference found;
  std::ranges::set_difference(is, was, std::back_inserter(found.frozen));
  std::ranges::set_difference(was, is, std::back_inserter(found.released));
  return found;
}

}  // namespace troupe::launch

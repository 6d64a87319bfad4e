#include "stages/files/peft/peft_targets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>

#include "stages/corpus/tokenizers/text/regex.h"
#include "stages/storage/data_error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;
using ModuleNames = std::set<std::string>;

constexpr std::string_view kAllLinear = "all-linear";

/// Whole names of modules with a matrix, and which of them lie outside the layers.
struct Modules {
  ModuleNames all, outside;
};
Modules modules_of(const ModelConfig& model) {
  Modules modules;
  constexpr std::string_view kWeight = ".weight";
  for (const ParameterInfo& info : parameters_of(model)) {
    const std::string& tensor = info.stored.tensor;
    if (info.shape.rank() < 2 || info.field == Field::router || !tensor.ends_with(kWeight))
      continue;
    const std::string name = tensor.substr(0, tensor.size() - kWeight.size());
    modules.all.insert(name);
    if (info.module != Module::attention && info.module != Module::feed_forward)
      modules.outside.insert(name);
  }
  return modules;
}

std::string last_part(const std::string& module) {
  return module.substr(module.find_last_of('.') + 1);
}

bool matches_whole(const Regex& regex, const std::string& name) {
  const auto found = regex.matches(name);
  return found.size() == 1 && found[0].begin == 0 && found[0].end == name.size();
}

/// Whether a module is chosen.
std::function<bool(const std::string&)> choice_of(const json& target_modules) {
  if (target_modules.is_string()) {
    const auto regex = std::make_shared<Regex>(
        Regex::of_pcre2(fmt::format("\\A(?:{})\\z", target_modules.get<std::string>())));
    return [regex](const std::string& name) { return matches_whole(*regex, name); };
  }
  const bool is_list =
      target_modules.is_array() && std::ranges::all_of(target_modules, [](const json& entry) {
        return entry.is_string() && entry != "";
      });
  if (!is_list) throw data_error("expected a list of names, or one text");
  const auto endings = target_modules.get<std::vector<std::string>>();
  return [endings](const std::string& name) {
    return std::ranges::any_of(endings, [&](const std::string& ending) {
      return name == ending || name.ends_with("." + ending);
    });
  };
}

}  // namespace

std::vector<std::string> chosen_targets(const json& target_modules, const ModelConfig& model) {
  if (target_modules == kAllLinear) return adapter_targets(model);
  const auto is_chosen = choice_of(target_modules);
  const Modules modules = modules_of(model);
  ModuleNames last_names;
  for (const std::string& name : modules.all)
    if (is_chosen(name)) {
      if (modules.outside.contains(name))
        throw data_error("{} is chosen, which is in no layer and cannot have an adapter", name);
      last_names.insert(last_part(name));
    }
  if (last_names.empty())
    throw data_error("no module of the model is chosen; its layers have {}",
                     fmt::join(adapter_targets(model), ", "));
  for (const std::string& name : modules.all)
    if (last_names.contains(last_part(name)) && !is_chosen(name))
      throw data_error(
          "{} is not chosen, but others of its name are; choose all modules of a name, or none",
          name);
  return {last_names.begin(), last_names.end()};
}

}  // namespace troupe::stages

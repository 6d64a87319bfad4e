#include "launch/planner/machine_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "launch/host/suggest.h"
#include "launch/manifest/toml/manifest.h"
#include "launch/manifest/toml/toml_values.h"
#include "launch/planner/machine_keys.h"
#include "stages/storage/input_file.h"

namespace troupe::launch {
namespace {

using schedules::MachineModel;

constexpr std::array<std::string_view, 6> kTables{"machine", "device",   "host",
                                                  "network", "software", "products"};
/// Texts of [machine].
struct TextKey {
  std::string_view name;
  std::string MachineDescription::*member;
};
constexpr std::array kTexts{TextKey{"host", &MachineDescription::host},
                            TextKey{"processor", &MachineDescription::processor},
                            TextKey{"date", &MachineDescription::date},
                            TextKey{"version", &MachineDescription::version}};
/// The one key that is true or false.
constexpr std::string_view kOverlapShards = "overlap_shards";
constexpr std::array<std::string_view, 4> kProductColumns{"m", "n", "k", "gflops"};

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const auto& preset : schedules::machine_presets()) names.push_back(preset.name);
  return names;
}

std::vector<std::string_view> keys_of(std::string_view table) {
  std::vector<std::string_view> names;
  for (const auto& choice : machine_choices())
    if (choice.table == table) names.push_back(choice.name);
  for (const auto& key : machine_keys())
    if (key.table == table) names.push_back(key.name);
  if (table == "software") names.push_back(kOverlapShards);
  if (table == "machine") {
    names.emplace_back("base");
    for (const TextKey& text : kTexts) names.push_back(text.name);
  }
  if (table == "products") names.assign(kProductColumns.begin(), kProductColumns.end());
  return names;
}

/// Fills a description from a file.
class MachineParser {
 public:
  explicit MachineParser(const std::string& name) { out_.name = name; }

  MachineDescription parse(std::string_view text) {
    toml::table root;
    try {
      root = toml::parse(text);
    } catch (const toml::parse_error& error) {
      refuse(place(error.source()), std::string(error.description()));
    }
    for (const auto& [name, node] : root) {
      if (std::ranges::find(kTables, name.str()) == kTables.end())
        refuse(place(name.source()),
               fmt::format("unknown table [{}]; did you mean [{}]? Tables are {}",
                           brief(name.str()), nearest(name.str(), kTables), quoted_list(kTables)));
      if (!node.is_table())
        refuse(place(name.source()),
               fmt::format("[{}] must be a table, not {}", name.str(), name_of(node.type())));
    }
    const toml::table* about = root["machine"].as_table();
    if (about) read_machine(*about);
    for (const std::string_view table : kTables)
      if (const toml::table* nodes = root[table].as_table(); nodes && nodes != about)
        read_table(table, *nodes);
    check_complete();
    return std::move(out_);
  }

 private:
  std::string place(const toml::source_region& region) const {
    return fmt::format("{}:{}:{}", out_.name, region.begin.line, region.begin.column);
  }

  void check_known(std::string_view table, const toml::key& name) const {
    const auto names = keys_of(table);
    if (std::ranges::find(names, name.str()) != names.end()) return;
    refuse(place(name.source()),
           fmt::format("unknown key '{0}.{1}'; did you mean '{0}.{2}'? Keys of [{0}] are {3}",
                       table, brief(name.str()), nearest(name.str(), names), quoted_list(names)));
  }

  std::string text_of(std::string_view key, const toml::node& node) const {
    if (const auto* text = node.as_string()) return text->get();
    refuse(place(node.source()),
           fmt::format("{} must be a text, not {}", key, name_of(node.type())));
  }

  double number_of(std::string_view key, const toml::node& node, bool may_be_zero) const {
    const auto value = node.is_number() ? node.value<double>() : std::nullopt;
    if (!value)
      refuse(place(node.source()),
             fmt::format("{} must be a number, not {}", key, name_of(node.type())));
    if (!(*value > 0 || (may_be_zero && *value == 0)) || *value > 1e18)
      refuse(place(node.source()), fmt::format("{} = {} must be {}", key, *value,
                                               may_be_zero ? "at least 0" : "above 0"));
    return *value;
  }

  void read_machine(const toml::table& nodes) {
    for (const auto& [name, node] : nodes) {
      check_known("machine", name);
      const std::string text = text_of(fmt::format("machine.{}", name.str()), node);
      const auto known = std::ranges::find(kTexts, name.str(), &TextKey::name);
      if (known != kTexts.end()) {
        out_.*(known->member) = text;
        continue;
      }
      const MachineModel* base = schedules::find_machine_preset(text);
      if (!base)
        refuse(
            place(node.source()),
            fmt::format("machine.base = '{}' is no preset; did you mean '{}'? Presets are {}",
                        brief(text), nearest(text, preset_names()), quoted_list(preset_names())));
      out_.model = *base;
      has_base_ = true;
    }
  }

  void read_table(std::string_view table, const toml::table& nodes) {
    for (const auto& [name, node] : nodes) {
      check_known(table, name);
      if (table == "products") continue;
      const std::string full = fmt::format("{}.{}", table, name.str());
      given_.insert(full);
      if (name.str() == kOverlapShards)
        read_flag(full, node);
      else if (!read_number(table, name.str(), full, node))
        read_choice(table, name.str(), full, node);
    }
    if (table == "products") read_products(nodes);
  }

  void read_flag(const std::string& full, const toml::node& node) {
    const auto value = node.value_exact<bool>();
    if (!value)
      refuse(place(node.source()),
             fmt::format("{} must be true or false, not {}", full, name_of(node.type())));
    out_.model.software.overlap_shards = *value;
  }

  bool read_number(std::string_view table, std::string_view name, const std::string& full,
                   const toml::node& node) {
    for (const MachineKey& key : machine_keys()) {
      if (key.table != table || key.name != name) continue;
      key.of(out_.model) = number_of(full, node, key.may_be_zero);
      return true;
    }
    return false;
  }

  void read_choice(std::string_view table, std::string_view name, const std::string& full,
                   const toml::node& node) {
    for (const MachineChoice& choice : machine_choices()) {
      if (choice.table != table || choice.name != name) continue;
      const std::string text = text_of(full, node);
      if (text != choice.values[0] && text != choice.values[1])
        refuse(place(node.source()),
               fmt::format("{} = '{}' is unknown; did you mean '{}'? It is one of {}", full,
                           brief(text), nearest(text, choice.values), quoted_list(choice.values)));
      choice.set(out_.model, text == choice.values[1]);
    }
  }

  /// Columns of equal length.
  void read_products(const toml::table& nodes) {
    std::array<std::vector<double>, kProductColumns.size()> columns;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::string full = fmt::format("products.{}", kProductColumns[i]);
      const toml::array* numbers = nodes[kProductColumns[i]].as_array();
      if (!numbers) refuse(place(nodes.source()), full + " must be a list of numbers");
      for (const toml::node& node : *numbers) columns[i].push_back(number_of(full, node, false));
      if (columns[i].size() != columns[0].size() || columns[i].empty())
        refuse(place(nodes.source()),
               fmt::format("{} has {} numbers and products.m {}; they are the columns of a table",
                           full, columns[i].size(), columns[0].size()));
    }
    out_.model.products.clear();
    for (std::size_t i = 0; i < columns[0].size(); ++i)
      out_.model.products.push_back(
          {.m = columns[0][i], .n = columns[1][i], .k = columns[2][i], .rate = columns[3][i]});
  }

  /// A description without a base has every number that has no default.
  void check_complete() const {
    if (has_base_) return;
    MachineModel model;  // has the defaults
    for (const MachineKey& key : machine_keys())
      if (const std::string full = fmt::format("{}.{}", key.table, key.name);
          key.of(model) == 0 && !key.may_be_zero && !given_.contains(full))
        refuse(out_.name, fmt::format("{} is missing; give it, or machine.base, one of {}, from "
                                      "which the machine takes what it does not give",
                                      full, quoted_list(preset_names())));
  }

  MachineDescription out_;
  bool has_base_ = false;
  std::set<std::string> given_;
};

}  // namespace

MachineDescription parse_machine(std::string_view text, const std::string& name) {
  return MachineParser(name).parse(text);
}

MachineDescription describe_machine(const std::string& name) {
  if (const MachineModel* preset = schedules::find_machine_preset(name))
    return {.name = name, .model = *preset};
  std::ifstream file(name, std::ios::binary);
  if (file) {
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file.bad()) return parse_machine(text, name);
  }
  if (name.ends_with(".toml"))
    throw Error(ErrorKind::data,
                fmt::format("{}: {}", name, stages::why_unreadable(name, "no such file")));
  troupe::refuse(
      fmt::format("--machine {} is neither a preset nor a file; did you mean '{}'? Presets are {}",
                  brief(name), nearest(name, preset_names()), quoted_list(preset_names())));
}

std::string_view machine_of_gpu(std::string_view name) {
  struct Named {
    std::string_view gpu, preset;
  };
  constexpr std::array kNamed{
      Named{"NVIDIA A100-SXM4-80GB", "a100-80g"},
      Named{"NVIDIA A100-SXM4-40GB", "a100-40g"},
      Named{"NVIDIA H100 80GB HBM3", "h100-sxm"},
      Named{"NVIDIA H200", "h200"},
      Named{"NVIDIA B200", "b200"},
      Named{"NVIDIA L40S", "l40s"},
      Named{"NVIDIA GeForce RTX 4090", "rtx-4090"},
  };
  const auto found = std::ranges::find(kNamed, name, &Named::gpu);
  return found == kNamed.end() ? "" : found->preset;
}

std::string to_toml(const MachineDescription& machine) {
  std::string out = "[machine]\n";
  for (const TextKey& text : kTexts)
    if (const std::string& value = machine.*(text.member); !value.empty())
      out += fmt::format("{} = {}\n", text.name, to_toml(Value(value)));
  MachineModel model = machine.model;
  for (const std::string_view table : {"device", "host", "network", "software"}) {
    out += fmt::format("\n[{}]\n", table);
    for (const MachineChoice& choice : machine_choices())
      if (choice.table == table)
        out += fmt::format("{} = \"{}\"\n", choice.name, choice.values[choice.is_second(model)]);
    for (const MachineKey& key : machine_keys())
      if (key.table == table) out += fmt::format("{} = {:.6g}\n", key.name, key.of(model));
    if (table == "software")
      out += fmt::format("{} = {}\n", kOverlapShards, model.software.overlap_shards);
  }
  if (model.products.empty()) return out;
  out += "\n[products]\n";
  constexpr std::array kMembers{&MachineModel::ProductRate::m, &MachineModel::ProductRate::n,
                                &MachineModel::ProductRate::k, &MachineModel::ProductRate::rate};
  for (std::size_t i = 0; i < kMembers.size(); ++i) {
    out += fmt::format("{} = [", kProductColumns[i]);
    for (const auto& row : model.products)
      out += fmt::format("{}{:.6g}", &row == &model.products.front() ? "" : ", ", row.*kMembers[i]);
    out += "]\n";
  }
  return out;
}

}  // namespace troupe::launch

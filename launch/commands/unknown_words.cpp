#include "launch/commands/unknown_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "launch/host/suggest.h"
#include "launch/manifest/toml/synonyms.h"

namespace troupe::launch {
namespace {

/// What commands are called elsewhere.
constexpr std::array kCommands{
    Synonyms{"train run start fit", "launch"},
    Synonyms{"resume continue restart", "launch --resume RUN"},
    Synonyms{"ps ls list jobs", "runs"},
    Synonyms{"kill cancel quit", "stop"},
    Synonyms{"watch top monitor follow tail", "attach"},
    Synonyms{"save", "checkpoint"},
    Synonyms{"resize rescale reshard", "scale"},
    Synonyms{"validate check dry_run", "plan"},
    Synonyms{"sample infer inference predict complete chat", "generate"},
    Synonyms{"evaluate test perplexity ppl", "eval"},
    Synonyms{"profile", "trace"},
    Synonyms{"info env", "doctor"},
    Synonyms{"help", "--help"},
    Synonyms{"version", "--version"},
};

/// What options are called elsewhere.
constexpr std::array kOptions{
    Synonyms{"max_new_tokens max_tokens max_length n_predict", "tokens"},
    Synonyms{"temp", "temperature"},
    Synonyms{"data dataset input file", "files"},
    Synonyms{"out output_dir", "output"},
    Synonyms{"override", "set"},
};

std::vector<std::string_view> options_of(const CLI::App& command) {
  std::vector<std::string_view> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.emplace_back(name);
  return names;
}

/// What an option that there is not means; empty if nothing is known.
std::string meaning_of(std::string_view name, const CLI::App& command) {
  const auto options = options_of(command);
  const auto is_option = [&](std::string_view option) {
    return std::ranges::find(options, option) != options.end();
  };
  const auto key = find_synonym(key_synonyms(), name);
  for (const std::string_view meant :
       {find_synonym(kOptions, name), key.substr(std::min(key.find('.') + 1, key.size()))})
    if (!meant.empty() && is_option(meant)) return fmt::format("it is --{} here", meant);
  const bool is_key = name.find('.') != name.npos || !key_without_table(name).empty();
  if (is_option("set") && is_key)
    return fmt::format("keys of the manifest are given as --set TABLE.KEY=VALUE{}",
                       name.find('.') != name.npos ? "" : "; " + key_without_table(name));
  const std::string_view near = nearest(name, options);
  const bool is_near =
      edit_distance(name.substr(0, 64), near) <= std::max<std::size_t>(2, name.size() / 3);
  return is_near ? fmt::format("did you mean --{}?", near) : "";
}

}  // namespace

std::string unknown_command(std::string_view given, std::span<const std::string_view> commands) {
  const auto here = find_synonym(kCommands, given);
  const std::string meant = here.empty()
                                ? fmt::format("did you mean '{}'?", nearest(given, commands))
                                : fmt::format("it is 'troupe {}' here.", here);
  return fmt::format("unknown command '{}'; {} Commands are {}", given, meant,
                     quoted_list(commands));
}

std::string unknown_argument(const CLI::App& command, std::span<const std::string> left) {
  const auto option =
      std::ranges::find_if(left, [](const std::string& word) { return word.starts_with('-'); });
  const std::string& word = option != left.end() ? *option : left.front();
  std::string meaning;
  if (word.starts_with("--"))
    meaning = meaning_of(std::string_view(word).substr(2, word.find('=') - 2), command);
  else if (word.find('=') != word.npos && command.get_option_no_throw("--set"))
    meaning = "keys of the manifest are given as --set TABLE.KEY=VALUE";
  return fmt::format("unknown argument: {}{}", word, meaning.empty() ? "" : "; " + meaning);
}

}  // namespace troupe::launch

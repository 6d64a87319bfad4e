#include "launch/commands/options.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "launch/commands/subcommand.h"
#include "launch/host/console.h"
#include "launch/host/suggest.h"
#include "launch/manifest/toml/synonyms.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

// Messages about words of a command line that mean nothing, with what was meant.

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
  const Key* key = find_key_called(manifest_keys(), name);
  for (const std::string_view meant :
       {find_synonym(kOptions, name), key ? key->name : std::string_view()})
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

/// The message about a command that there is not.
std::string unknown_command(std::string_view given, std::span<const std::string_view> commands) {
  const auto here = find_synonym(kCommands, given);
  const std::string meant = here.empty()
                                ? fmt::format("did you mean '{}'?", nearest(given, commands))
                                : fmt::format("it is 'troupe {}' here.", here);
  return fmt::format("unknown command '{}'; {} Commands are {}", given, meant,
                     quoted_list(commands));
}

/// The message about the words that a command has left over, of which there is at least one.
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

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::usage, message + "\nRun with --help for more information.");
}

/// Refuses an unknown command, for which CLI11 would report only that a command is missing.
void check_command(const std::string& given) {
  constexpr std::array<std::string_view, 23> kNames{
      "plan",   "measure",  "launch",   "join",        "hosts",    "status", "attach", "trace",
      "tap",    "scale",    "stop",     "checkpoint",  "generate", "eval",   "logits", "import",
      "export", "tokenize", "schedule", "collectives", "report",   "runs",   "doctor"};
  if (given.empty() || given[0] == '-' || given == "worker" || given == "devices" ||
      given == "rank")
    return;
  if (std::ranges::find(kNames, given) != kNames.end()) return;
  refuse(unknown_command(given, kNames));
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  CLI::App app("Troupe trains Llama-style language models on a cluster of supervised actors.",
               "troupe");
  app.set_version_flag("--version", "troupe " TROUPE_VERSION);
  app.require_subcommand(1);
  app.footer(fmt::format("Start with: troupe plan MANIFEST, then troupe launch MANIFEST.\n{}",
                         kExitCodes));
  std::map<std::string, std::function<Options()>> commands;
  const auto add = [&]<typename O>(const char* name, void (*add_to)(CLI::App&, O&)) {
    const auto options = std::make_shared<O>();
    add_to(app, *options);
    commands[name] = [options] { return Options(*options); };
  };
  add("plan", add_plan);
  add("measure", add_measure);
  add("launch", add_launch);
  add("join", add_join);
  add("hosts", add_hosts);
  add("status", add_status);
  add("runs", add_runs);
  add("attach", add_attach);
  add("report", add_report);
  add("trace", add_trace);
  add("tap", add_tap);
  add("scale", add_scale);
  add("checkpoint", add_checkpoint);
  add("stop", add_stop);
  add("collectives", add_collectives);
  add("generate", add_generate);
  add("eval", add_eval);
  add("logits", add_logits);
  add("import", add_import);
  add("export", add_export);
  add("tokenize", add_tokenize);
  add("schedule", add_schedule);
  add("doctor", add_doctor);
  app.add_subcommand("devices", "Report the GPUs of this machine; started by other commands")
      ->group("");
  commands["devices"] = [] { return DevicesOptions{}; };
  app.add_subcommand("rank", "A rank of a model; started by generate and eval")->group("");
  commands["rank"] = [] { return RankOptions{}; };
  app.add_subcommand("worker", "A worker process; started by launch")->group("");
  commands["worker"] = [] { return WorkerOptions{}; };
  check_command(argc > 1 ? argv[1] : "");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    return PrintText{std::string(version.what()) + "\n"};
  } catch (const CLI::CallForHelp&) {
    return PrintText{app.help()};
  } catch (const CLI::ExtrasError&) {
    const auto chosen = app.get_subcommands();
    refuse(unknown_argument(chosen.empty() ? app : *chosen.front(), app.remaining(true)));
  } catch (const CLI::ParseError& error) {
    refuse(error.what());  // which names the option
  }
  return commands.at(app.get_subcommands().front()->get_name())();
}

int run(const PrintText& text) {
  print(text.text);
  return 0;
}

}  // namespace troupe::launch

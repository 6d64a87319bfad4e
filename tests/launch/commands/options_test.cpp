#include "launch/commands/options.h"

#include <boost/test/unit_test.hpp>
#include <set>
#include <sstream>

#include "tests/support/expect_error.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(options_test)

namespace {

using namespace launch;

Options parsed(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "troupe");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

std::string help_of(std::vector<const char*> arguments) {
  arguments.push_back("--help");
  return std::get<PrintText>(parsed(arguments)).text;
}

/// Every word of a text that looks like an option.
std::set<std::string> options_in(const std::string& text) {
  std::set<std::string> found;
  std::istringstream lines(text.substr(0, text.find("Examples:")));
  for (std::string word; lines >> word;)
    for (std::size_t at = 0, end; at < word.size(); at = end + 1) {
      end = std::min(word.find(',', at), word.size());
      if (word[at] == '-' && end - at > 1) found.insert(word.substr(at, end - at));
    }
  return found;
}

}  // namespace

/// The whole command line. A change here is a change for every user: it belongs in the notes of a
/// release.
BOOST_AUTO_TEST_CASE(the_options_are_frozen) {
  using Names = std::set<std::string>;
  const std::map<std::string, Names> frozen{
      {"plan",
       {"-h", "--help", "--set", "--all", "--json", "--svg", "--bandwidth", "--hosts", "--machine",
        "--devices", "--search", "--top", "-o", "--output", "--inference", "--batch", "--context"}},
      {"measure", {"-h", "--help", "-o", "--output", "--threads"}},
      {"launch",
       {"-h", "--help", "--set", "--resume", "--from", "--data", "--hostfile", "--wait-for-hosts",
        "--rendezvous", "--token-file", "--devices", "--machine"}},
      {"join", {"-h", "--help", "--rendezvous", "--token-file", "--slots", "--wait"}},
      {"hosts", {"-h", "--help", "--json"}},
      {"status", {"-h", "--help", "--json", "--diagnose"}},
      {"attach", {"-h", "--help", "--json", "--events"}},
      {"trace", {"-h", "--help", "--steps", "-o", "--output"}},
      {"stop", {"-h", "--help", "--json"}},
      {"scale",
       {"-h", "--help", "--pp", "--dp", "--tp", "--ep", "--stage", "--layout", "--schedule",
        "--without-host", "--hosts", "--json"}},
      {"doctor",
       {"-h", "--help", "--hosts", "--hostfile", "--wait-for-hosts", "--rendezvous", "--token-file",
        "--set", "--json"}},
      {"generate",
       {"-h", "--help", "--prompt", "--prompt-file", "--chat", "--bos", "--tokens", "--seed",
        "--temperature", "--top-k", "--top-p", "--stop", "--json", "--tp", "--pp", "--threads",
        "--device"}},
      {"eval",
       {"-h", "--help", "--files", "--steps", "--seq-len", "--documents", "--loss-on", "--bos",
        "--end-of-document", "--json", "--tp", "--pp", "--threads", "--device"}},
      {"logits", {"-h", "--help", "--ids", "-o", "--output", "--threads", "--device"}},
      {"runs", {"-h", "--help", "--json"}},
      {"import", {"-h", "--help", "--json"}},
      {"export", {"-h", "--help", "--dtype", "--json"}},
      {"tokenize",
       {"-h", "--help", "--tokenizer", "-o", "--output", "--add-special-tokens", "--bos",
        "--end-of-document", "--append", "--fields", "--on-bad-line", "--date", "--json"}},
      {"schedule",
       {"-h", "--help", "--kind", "--stages", "--chunks", "--microbatches", "--costs", "--memory",
        "--group-size", "--compare", "--blocking-sends", "--no-barrier", "--json", "--csv",
        "--grid", "--svg", "--axis", "--trace"}}};
  for (const auto& [name, options] : frozen) {
    const std::string help = help_of({name.c_str()});
    const Names found = options_in(help);
    BOOST_TEST(found == options, boost::test_tools::per_element());
    BOOST_TEST(help.size() > 80u);
    BOOST_TEST(help.find("Examples:\n  troupe " + name) != std::string::npos, help);
  }
  const std::string all = help_of({});
  for (const auto& [name, options] : frozen)
    BOOST_TEST(all.find("\n  " + name) != std::string::npos, name);
  BOOST_TEST(all.find("worker") == std::string::npos);
  const Names top = options_in(all);
  const Names top_frozen{"-h", "--help", "--version"};
  BOOST_TEST(top == top_frozen, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_command_line_becomes_its_options) {
  const auto plan = std::get<PlanOptions>(
      parsed({"plan", "m.toml", "--set", "a.b=1", "--json", "--set", "c.d=[1, 2]"}));
  BOOST_TEST(plan.manifest == "m.toml");
  BOOST_TEST(plan.json);
  BOOST_TEST(!plan.all);
  BOOST_TEST(std::get<PlanOptions>(parsed({"plan", "m.toml", "--all"})).all);
  BOOST_TEST((plan.overrides == std::vector<std::string>{"a.b=1", "c.d=[1, 2]"}));
  const auto launch =
      std::get<LaunchOptions>(parsed({"launch", "--resume", "runs/a", "--set", "run.max_steps=9"}));
  BOOST_TEST(launch.resume == "runs/a");
  BOOST_TEST(launch.manifest == "");
  const auto generate =
      std::get<GenerateOptions>(parsed({"generate", "c", "--prompt", "the ", "--tokens", "40",
                                        "--seed", "18446744073709551615", "--temperature", "0"}));
  BOOST_TEST(generate.prompt == "the ");
  BOOST_TEST(generate.tokens == 40);
  BOOST_TEST(generate.sampling.seed == 18446744073709551615u);
  BOOST_TEST(generate.sampling.temperature == 0.0);
  const auto many = std::get<GenerateOptions>(
      parsed({"generate", "c", "--prompt-file", "p", "--stop", "a", "--stop", "b c", "--top-k", "5",
              "--top-p", "0.5", "--tp", "2", "--pp", "3", "--json"}));
  BOOST_TEST(many.prompt_file == "p");
  BOOST_TEST((many.stops == std::vector<std::string>{"a", "b c"}));
  BOOST_TEST(many.sampling.top_k == 5);
  BOOST_TEST(many.sampling.top_p == 0.5);
  BOOST_TEST(many.tp == 2);
  BOOST_TEST(many.pp == 3);
  BOOST_TEST(many.json);
  const auto eval = std::get<EvalOptions>(parsed(
      {"eval", "c", "--files", "a", "b", "--steps", "4", "--tp", "2", "--pp", "3", "--json"}));
  BOOST_TEST((eval.files == std::vector<std::string>{"a", "b"}));
  BOOST_TEST(eval.steps == 4);
  BOOST_TEST(eval.tp == 2);
  BOOST_TEST(eval.pp == 3);
  BOOST_TEST(!eval.documents);  // as in training
  BOOST_TEST(!eval.loss_on);
  const auto from = std::get<LaunchOptions>(
      parsed({"launch", "--from", "model", "--data", "a.txt", "b.txt", "--set", "mesh.pp=2"}));
  BOOST_TEST(from.from == "model");
  BOOST_TEST(from.files == (std::vector<std::string>{"a.txt", "b.txt"}));
  BOOST_TEST(from.overrides == std::vector<std::string>{"mesh.pp=2"});
  BOOST_TEST(std::get<ExportOptions>(parsed({"export", "c", "o", "--dtype", "float16"})).dtype ==
             "float16");
  const auto tokenize =
      std::get<TokenizeOptions>(parsed({"tokenize", "a", "b", "--tokenizer", "t", "-o", "out"}));
  BOOST_TEST(tokenize.files.size() == 2u);
  BOOST_TEST(tokenize.output == "out");
  BOOST_TEST(!tokenize.add_special_tokens);
  BOOST_TEST(
      (std::get<TokenizeOptions>(parsed({"tokenize", "a", "-o", "b", "--append", "</s>"})).append ==
       "</s>"));
  BOOST_TEST(std::get<StatusOptions>(parsed({"status", "r", "--json"})).json);
  BOOST_TEST(std::get<AttachOptions>(parsed({"attach", "r", "--events", "step"})).events == "step");
  const auto trace = std::get<TraceOptions>(parsed({"trace", "r", "--steps", "2", "-o", "t"}));
  BOOST_TEST(trace.steps == 2);
  BOOST_TEST(trace.output == "t");
  BOOST_TEST(std::get<StatusOptions>(parsed({"status", "r", "--diagnose"})).diagnose);
  BOOST_TEST(std::get<DoctorOptions>(parsed({"doctor"})).hosts == "");
  const auto doctor = std::get<DoctorOptions>(
      parsed({"doctor", "--hosts", "m.toml", "--hostfile", "h", "--set", "mesh.pp=2", "--json"}));
  BOOST_TEST((doctor.hosts == "m.toml" && doctor.with.hostfile == "h" && doctor.json));
  BOOST_TEST(doctor.overrides == std::vector<std::string>{"mesh.pp=2"});
  BOOST_TEST(std::get<CheckpointOptions>(parsed({"checkpoint", "r"})).run == "r");
  BOOST_TEST(std::get<CheckpointOptions>(parsed({"checkpoint", "r", "--json"})).json);
  const auto scale = std::get<ScaleOptions>(
      parsed({"scale", "r", "--without-host", "a", "--without-host", "b", "--hosts", "3"}));
  BOOST_TEST((scale.request.without_hosts == std::vector<std::string>{"a", "b"}));
  BOOST_TEST((scale.request.hosts == 3));
  BOOST_TEST(std::get<StopOptions>(parsed({"stop", "r"})).run == "r");
  BOOST_TEST((std::holds_alternative<WorkerOptions>(parsed({"worker"}))));
  BOOST_TEST((std::holds_alternative<RankOptions>(parsed({"rank"}))));
  BOOST_TEST(std::get<PrintText>(parsed({"--version"})).text.find("troupe ") == 0u);
}

BOOST_AUTO_TEST_CASE(wrong_usage_names_the_option) {
  const auto refused = [](const std::vector<const char*>& arguments, const std::string& word) {
    expect_error(ErrorKind::usage, {word, "--help"}, [&] { parsed(arguments); });
  };
  refused({"launch", "--frobnicate", "m.toml"}, "--frobnicate");
  refused({"launch"}, "manifest");
  refused({"launch", "m.toml", "--resume", "r"}, "--resume");
  refused({"plan"}, "manifest");
  refused({"plan", "a.toml", "b.toml"}, "b.toml");
  refused({"frobnicate"}, "frobnicate");
  refused({"train", "m.toml"}, "it is 'troupe launch' here");
  refused({"ls"}, "it is 'troupe runs' here");
  refused({"lanch"}, "did you mean 'launch'?");
  refused({"launch", "m.toml", "--steps", "5"},
          "argument: --steps; keys of the manifest are given as --set");
  refused({"launch", "m.toml", "--steps=5"}, "steps is run.max_steps here");
  refused({"launch", "m.toml", "--run.max_steps", "5"}, "--set TABLE.KEY=VALUE");
  refused({"launch", "m.toml", "run.max_steps=5"}, "--set TABLE.KEY=VALUE");
  refused({"scale", "r", "--pipeline-parallel", "2"}, "it is --pp here");
  refused({"generate", "c", "--prompt", "x", "--max_new_tokens", "9"}, "it is --tokens here");
  refused({"status", "r", "--jsn"}, "did you mean --json?");
  refused({}, "subcommand");
  refused({"generate", "c"}, "--prompt");
  refused({"generate", "c", "--prompt", "x", "--prompt-file", "f"}, "--prompt");
  refused({"generate", "c", "--prompt", "x", "--top-p", "1.1"}, "--top-p");
  refused({"generate", "c", "--prompt", "x", "--top-k", "-1"}, "--top-k");
  refused({"generate", "c", "--prompt", "x", "--tp", "0"}, "--tp");
  refused({"generate", "c", "--prompt", "x", "--stop", ""}, "--stop");
  refused({"generate", "c", "--prompt", "x", "--tokens", "none"}, "--tokens");
  refused({"generate", "c", "--prompt", "x", "--tokens", "0"}, "--tokens");
  refused({"generate", "c", "--prompt", "x", "--temperature", "-1"}, "--temperature");
  refused({"eval", "c"}, "--files");
  for (const char* number : {"nan", "inf", "-nan", "0x1", "1,5", ""})
    refused({"generate", "c", "--prompt", "x", "--temperature", number}, "--temperature");
  for (const char* number : {"-1", "1.5", "nan", "18446744073709551616", "010", "0x10", " 1"})
    refused({"generate", "c", "--prompt", "x", "--seed", number}, "--seed");
  refused({"schedule", "--memory", "nan"}, "--memory");
  for (const char* option : {"--stages", "--chunks", "--microbatches"})
    for (const char* number : {"0", "-1", "010", "4294967297", "x"})
      refused({"schedule", option, number}, option);
  for (const char* option : {"--pp", "--dp", "--hosts"})
    for (const char* number : {"0", "-1", "010", "65537"})
      refused({"scale", "r", option, number}, option);
  refused({"eval", "c", "--files", "f", "--steps", "-1"}, "--steps");
  refused({"eval", "c", "--files", "f", "--threads", "-1"}, "--threads");
  refused({"eval", "c", "--files", "f", "--pp", "0"}, "--pp");
  refused({"eval", "c", "--files", "f", "--tp", "1025"}, "--tp");
  refused({"eval", "c", "--files", "f", "--documents", "one"}, "--documents");
  refused({"eval", "c", "--files", "f", "--loss-on", "prompt"}, "--loss-on");
  refused({"tap", "r", "--edge", "0:1", "--every", "0"}, "--every");
  refused({"tap", "r", "--edge", "0:1", "--samples", "-1"}, "--samples");
  refused({"trace", "r", "-o", "f", "--steps", "010"}, "--steps");
  refused({"launch", "--from", "model"}, "--data");
  refused({"launch", "--data", "a.txt"}, "--from");
  refused({"launch", "m.toml", "--from", "model", "--data", "a.txt"}, "--from");
  refused({"export", "c", "o", "--dtype", "int8"}, "--dtype");
  refused({"logits", "c", "-o", "out"}, "--ids");
  refused({"tokenize", "a"}, "--output");
  refused({"status"}, "run");
  refused({"trace", "r"}, "--output");
  refused({"trace", "r", "-o", "f", "--steps", "0"}, "--steps");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test

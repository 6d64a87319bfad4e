#include "launch/commands/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "launch/commands/model_options.h"
#include "launch/commands/number_between.h"
#include "launch/commands/subcommand.h"
#include "launch/commands/unknown_words.h"
#include "tensor/error.h"

namespace troupe::launch {

void add_device(CLI::App* sub, std::string& device, int& threads) {
  sub->add_option("--device", device, "What to compute with: cpu, or cuda, an NVIDIA GPU")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  sub->add_option(
         "--threads", threads,
         "Compute threads; 0: one for each free core. Sums depend on their number in the last bits")
      ->check(number_between(0, 1024))
      ->capture_default_str();
}

namespace {

void add_overrides(CLI::App* sub, std::vector<std::string>& overrides) {
  sub->add_option("--set", overrides, "Override a key of the manifest; may be repeated")
      ->type_name("TABLE.KEY=VALUE")
      ->expected(1)
      ->take_all();
}

void add_plan(CLI::App& app, PlanOptions& o) {
  CLI::App* sub =
      command(app, "plan", "Check a manifest and show what a launch would do; starts nothing",
              "  troupe plan run.toml\n"
              "  troupe plan run.toml --set mesh.pp=4 --svg schedule.svg\n"
              "  troupe plan run.toml --json");
  sub->add_option("manifest", o.manifest, "The run's manifest, a TOML file")
      ->required()
      ->type_name("FILE");
  add_overrides(sub, o.overrides);
  sub->add_flag("--all", o.all,
                "Print every key of the manifest, also those with default or derived values");
  sub->add_flag("--json", o.json, "Print one JSON object, with every key");
  sub->add_option("--svg", o.svg, "Draw the schedule of a step into this file")->type_name("FILE");
  sub->add_option("--bandwidth", o.bandwidth,
                  "GB/s that a rank sends to others, to tell how long collectives of shards and of "
                  "replicas take")
      ->check(number_between(1e-3, 1e6))
      ->type_name("GB/S");
}

void add_launch(CLI::App& app, LaunchOptions& o) {
  CLI::App* sub = command(
      app, "launch", "Train: start the cluster, print a line for each step, write a run directory",
      "  troupe launch run.toml\n"
      "  troupe launch run.toml --set mesh.pp=2 --set run.dir=/data/runs/first\n"
      "  troupe launch --resume runs/first --set run.max_steps=2000\n"
      "  troupe launch --from Llama-3.2-1B --data 'books/*.txt' --set batch.seq_len=1024\n"
      "Ctrl-C or SIGTERM finishes the step, saves and exits with 0; a second one stops at once.");
  auto* manifest =
      sub->add_option("manifest", o.manifest, "The run's manifest, a TOML file")->type_name("FILE");
  auto* resume = sub->add_option("--resume", o.resume,
                                 "Go on with the run in this directory, from its newest checkpoint")
                     ->type_name("RUN");
  auto* from = sub->add_option("--from", o.from,
                               "Train the model in this Hugging Face directory, or checkpoint, "
                               "without a manifest")
                   ->type_name("MODEL");
  auto* data = sub->add_option("--data", o.files, "What to train it on, as data.files")
                   ->type_name("FILE")
                   ->needs(from);
  from->needs(data);
  manifest->excludes(resume)->excludes(from);
  resume->excludes(from);
  add_overrides(sub, o.overrides);
  sub->callback([&o] {
    if (o.manifest.empty() && o.resume.empty() && o.from.empty())
      throw CLI::RequiredError(
          "a manifest, --resume with a run directory, or --from with a model,");
  });
}

void add_status(CLI::App& app, StatusOptions& o) {
  CLI::App* sub = command(app, "status", "Show what a run is doing, or how and when it ended",
                          "  troupe status runs/first\n"
                          "  troupe status runs/first --json\n"
                          "  troupe status runs/first --diagnose");
  sub->add_option("run", o.run, "The run directory")->required()->type_name("RUN");
  sub->add_flag("--json", o.json, "Print one JSON object");
  sub->add_flag("--diagnose", o.diagnose,
                "Print what is wrong with the run; exit code 1 if something is");
}

void add_attach(CLI::App& app, AttachOptions& o) {
  CLI::App* sub = command(
      app, "attach",
      "Watch a run on a screen, a live one also as a line for each event; leaving does not affect "
      "it",
      "  troupe attach runs/first\n"
      "  troupe attach runs/first --json --events step,failure,recovered\n"
      "Ctrl-C or q leaves, and ? explains the screen. A pipe, or a terminal that is dumb, gets "
      "lines.");
  sub->add_option("run", o.run, "The run directory")->required()->type_name("RUN");
  sub->add_flag("--json", o.json, "Print one JSON object for each event, a line each");
  sub->add_option("--events", o.events, "Kinds of events; default: all but single actions")
      ->type_name("KIND,KIND");
}

void add_report(CLI::App& app, ReportOptions& o) {
  CLI::App* sub = command(
      app, "report", "Write a page about a run, live or ended, or about several beside each other",
      "  troupe report runs/first\n"
      "  troupe report runs/first runs/second -o both.html\n"
      "  troupe report runs/first --json\n"
      "The page is one file that needs no other. Reading a run does not disturb it.");
  sub->add_option("runs", o.runs, "Run directories; several are compared")
      ->required()
      ->type_name("RUN");
  auto* output = sub->add_option("-o,--output", o.output,
                                 "File to write; default: report.html in the run directory")
                     ->type_name("FILE.html");
  sub->add_flag("--json", o.json, "Print the page's data as one JSON object instead")
      ->excludes(output);
}

void add_trace(CLI::App& app, TraceOptions& o) {
  CLI::App* sub =
      command(app, "trace", "Record every action of some steps of a live run, for ui.perfetto.dev",
              "  troupe trace runs/first --steps 3 -o trace.json");
  sub->add_option("run", o.run, "The run directory")->required()->type_name("RUN");
  sub->add_option("--steps", o.steps, "Steps to record")
      ->check(number_between(1, 1000))
      ->capture_default_str();
  sub->add_option("-o,--output", o.output, "File to write, in the Chrome trace format")
      ->required()
      ->type_name("FILE");
}

void add_collectives(CLI::App& app, CollectivesOptions& o) {
  CLI::App* sub = command(
      app, "collectives",
      "Name the collective that did not end, and the rank at fault, after an interruption",
      "  troupe collectives runs/first\n"
      "Reads what the ranks recorded when a step was interrupted: a rank was lost, or a wait "
      "took too long.");
  sub->add_option("run", o.run, "The run directory")->required()->type_name("RUN");
}

void add_tap(CLI::App& app, TapOptions& o) {
  CLI::App* sub = command(
      app, "tap", "Look at tensors that travel over an edge of a live run, a JSON line each",
      "  troupe tap runs/first --edge 0:1 --every 10 --microbatch 0\n"
      "  troupe tap runs/first --edge 1:0 --backward --not-finite --dump\n"
      "A line has norm, mean, min, max, the elements that are not finite, and a histogram: bin 0 "
      "counts\nmagnitudes below 2^-40, bin i those in [2^(i-41), 2^(i-40)). Ctrl-C leaves.");
  sub->add_option("run", o.run, "The run directory")->required()->type_name("RUN");
  sub->add_option("--edge", o.edge, "Ranks of the sender and the receiver")
      ->required()
      ->type_name("FROM:TO");
  sub->add_flag("--backward", o.backward, "Gradients instead of activations");
  sub->add_option("--every", o.every, "Only steps whose number is a multiple of this")
      ->check(number_between(1, kMost))
      ->capture_default_str();
  sub->add_option("--microbatch", o.microbatch, "Only this one; default: all")
      ->check(number_between(0, kMost));
  sub->add_flag("--not-finite", o.not_finite, "Only tensors with an infinite element or a NaN");
  sub->add_flag("--dump", o.dump,
                "Write each as safetensors into taps/ of the run directory; the step waits for it");
  sub->add_option("--samples", o.samples,
                  "Look at, print and dump this many tensors in all, then leave; 0: stay")
      ->check(number_between(0, kMost))
      ->capture_default_str();
}

void add_scale(CLI::App& app, ScaleOptions& o) {
  CLI::App* sub = command(
      app, "scale", "Change a live run's stages, replicas, shards or schedule at the next step",
      "  troupe scale runs/first --pp 3\n"
      "  troupe scale runs/first --pp 3 --layout 3,2,1\n"
      "  troupe scale runs/first --layout 'Et|t*3|tL'\n"
      "  troupe scale runs/first --dp 2 --schedule gpipe\n"
      "Another number of stages changes no loss; one of replicas or shards the order of sums.\n"
      "Returns when the first step of the new shape is committed, and prints what it cost.");
  sub->add_option("run", o.run, "The run directory")->required()->type_name("RUN");
  sub->add_option("--pp", o.pp, "Pipeline stages")->check(number_between(1, 1024))->type_name("N");
  sub->add_option("--dp", o.dp, "Replicas of the pipeline")
      ->check(number_between(1, 1024))
      ->type_name("N");
  sub->add_option("--tp", o.tp, "Tensor-parallel shards of a stage")
      ->check(number_between(1, 1024))
      ->type_name("N");
  sub->add_option("--layout", o.layout,
                  "How layers are split: even, ends, parameters, layers of each chunk as 3,2,1, or "
                  "Megatron-LM's letters")
      ->type_name("SPLIT");
  sub->add_option("--schedule", o.schedule,
                  "A schedule's name; csv: back to the manifest's own plan")
      ->type_name("KIND");
  sub->add_flag("--json", o.json, "Print one JSON object: code (0), text");
}

void add_checkpoint(CLI::App& app, CheckpointOptions& o) {
  CLI::App* sub = command(app, "checkpoint",
                          "Save a live run at its next step, which goes on meanwhile; prints where",
                          "  troupe checkpoint runs/first\n"
                          "Returns when the checkpoint is complete. One is made at a time.");
  sub->add_option("run", o.run, "The run directory")->required()->type_name("RUN");
  sub->add_flag("--json", o.json, "Print one JSON object: step, checkpoint");
}

void add_stop(CLI::App& app, StopOptions& o) {
  CLI::App* sub =
      command(app, "stop",
              "End a run in order: finish the step, save a checkpoint; returns when it has ended",
              "  troupe stop runs/first");
  sub->add_option("run", o.run, "The run directory")->required()->type_name("RUN");
  sub->add_flag("--json", o.json,
                "Print one JSON object: exit_code, step, reason, ended, checkpoint");
}

void add_eval(CLI::App& app, EvalOptions& o) {
  CLI::App* sub = command(
      app, "eval", "Mean loss of a checkpoint's model on text",
      "  troupe eval runs/first/checkpoints/step-1000 --files held-out.txt\n"
      "  troupe eval runs/first/checkpoints/step-1000 --files 'books/*.txt' --steps 100 --json");
  sub->add_option("checkpoint", o.checkpoint, kCheckpoint)->required()->type_name("CHECKPOINT");
  sub->add_option("--files", o.files, "Text files or globs, or one .bin with its .idx")
      ->required()
      ->type_name("FILE");
  sub->add_option("--steps", o.steps, "Steps of 8 samples, each read once at most")
      ->check(number_between(1, kMost))
      ->capture_default_str();
  sub->add_option("--seq-len", o.seq_len,
                  "Tokens of a sample; default: as in training, or as long as the model's "
                  "positions, at most 2048")
      ->check(number_between(1, 1'048'576));
  sub->add_option("--documents", o.documents,
                  "How text becomes samples, as batch.documents; default: as in training")
      ->check(CLI::IsMember({"joined", "padded", "packed"}));
  sub->add_option("--loss-on", o.loss_on,
                  "Which tokens count, as data.loss_on; default: as in training")
      ->check(CLI::IsMember({"all", "response"}));
  sub->add_flag("--json", o.json, "Print one JSON object");
  add_device(sub, o.device, o.threads);
}

void add_tokenize(CLI::App& app, TokenizeOptions& o) {
  CLI::App* sub = command(
      app, "tokenize", "Turn text into an indexed dataset, PREFIX.bin and PREFIX.idx",
      "  troupe tokenize books/*.txt --tokenizer spm.model -o data/books\n"
      "  troupe tokenize corpus.jsonl --tokenizer tokenizer.json --append '</s>' -o data/corpus\n"
      "JSON lines are a document a line, from its \"text\", \"prompt\" and \"response\", or "
      "\"messages\"; any other file is one document.");
  sub->add_option("files", o.files, "Text or JSONL files, or globs")->required()->type_name("FILE");
  sub->add_option("--tokenizer", o.tokenizer, "bytes, a SentencePiece .model, or a tokenizer.json")
      ->capture_default_str();
  sub->add_option("-o,--output", o.output, "Path of the dataset without .bin and .idx")
      ->required()
      ->type_name("PREFIX");
  sub->add_flag("--add-special-tokens", o.add_special_tokens,
                "Put around each document what the tokenizer.json's post-processor says");
  sub->add_option("--append", o.append, "Put this token behind each document, as </s>")
      ->type_name("TOKEN");
  sub->add_flag("--json", o.json, "Print one JSON object: prefix, tokens, documents, sequences");
}

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::usage, message + "\nRun with --help for more information.");
}

/// Refuses an unknown command, for which CLI11 would report only that a command is missing.
void check_command(const std::string& given) {
  constexpr std::array<std::string_view, 20> kNames{
      "plan",     "launch",     "status",      "attach", "trace",  "tap",    "scale",
      "stop",     "checkpoint", "generate",    "eval",   "logits", "import", "export",
      "tokenize", "schedule",   "collectives", "report", "runs",   "doctor"};
  if (given.empty() || given[0] == '-' || given == "worker" || given == "devices") return;
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
  add("launch", add_launch);
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
  command(app, "doctor", "Check this machine: cores, memory, shared memory, transports, libraries",
          "  troupe doctor");
  commands["doctor"] = [] { return DoctorOptions{}; };
  app.add_subcommand("devices", "Report the GPUs of this machine; started by other commands")
      ->group("");
  commands["devices"] = [] { return DevicesOptions{}; };
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
    const auto commands = app.get_subcommands();
    refuse(unknown_argument(commands.empty() ? app : *commands.front(), app.remaining(true)));
  } catch (const CLI::ParseError& error) {
    refuse(error.what());  // which names the option
  }
  return commands.at(app.get_subcommands().front()->get_name())();
}

}  // namespace troupe::launch

#include "launch/commands/subcommand.h"

// The command lines of commands that start a run or work with one.

namespace troupe::launch {
namespace {

CLI::Option* add_overrides(CLI::App* sub, std::vector<std::string>& overrides) {
  return sub->add_option("--set", overrides, "Override a key of the manifest; may be repeated")
      ->type_name("TABLE.KEY=VALUE")
      ->expected(1)
      ->take_all();
}

/// The options by which other hosts are named, or come. Returns them.
std::vector<CLI::Option*> add_host_options(CLI::App* sub, HostOptions& hosts) {
  return {sub->add_option("--hostfile", hosts.hostfile,
                          "The hosts of the run, one a line, as h0:2 or 'h0 slots=2'; in place of "
                          "cluster.hosts")
              ->type_name("FILE"),
          number(sub, "--wait-for-hosts", hosts.wait_for_hosts, 1, 65536,
                 "How many hosts come by troupe join, this one included")
              ->type_name("N"),
          sub->add_option("--rendezvous", hosts.rendezvous,
                          "Where they come: a name of this host and a port; default: any port, or "
                          "that of MASTER_ADDR and MASTER_PORT for processes of a job that have "
                          "--token-file")
              ->type_name("HOST:PORT"),
          sub->add_option("--token-file", hosts.token_file,
                          "File with the secret that they know, of mode 0600")
              ->type_name("FILE")};
}

/// What a plan for another machine takes.
void add_machine_options(CLI::App* sub, PlanOptions& o) {
  auto* machine =
      sub->add_option("--machine", o.machine,
                      "Predict time and memory of a step on a machine that is not this one: a "
                      "preset's name, or a TOML file that describes it")
          ->type_name("NAME|FILE");
  auto* devices =
      number(sub, "--devices", o.devices, 1, 1 << 20,
             "Devices that the run has there; sets mesh.dp, or is what --search divides")
          ->type_name("N")
          ->needs(machine);
  auto* search =
      sub->add_flag("--search", o.search, "Rank layouts of so many devices by the time of a step")
          ->needs(machine);
  number(sub, "--top", o.top, 1, 1000, "Layouts to show")->type_name("K")->needs(search);
  sub->add_option("-o,--output", o.output, "Write the manifest of the fastest into this file")
      ->type_name("FILE")
      ->needs(search);
  auto* inference = sub->add_flag("--inference", o.inference,
                                  "Predict inference with the model instead of its training")
                        ->needs(machine)
                        ->excludes(search)
                        ->excludes(devices);
  number(sub, "--batch", o.batch, 1, kMost, "Sequences at a time")
      ->type_name("N")
      ->needs(inference);
  number(sub, "--context", o.context, 1, kMost, "Tokens of each; default: batch.seq_len")
      ->type_name("N")
      ->needs(inference);
}

CLI::App* command_of_run(CLI::App& app, std::string& run, const char* name, const char* what,
                         const char* examples) {
  CLI::App* sub = command(app, name, what, examples);
  required(sub, "run", run, "RUN", "The run directory");
  return sub;
}

}  // namespace

void add_plan(CLI::App& app, PlanOptions& o) {
  CLI::App* sub =
      command(app, "plan", "Check a manifest and show what a launch would do; starts nothing",
              "  troupe plan run.toml\n"
              "  troupe plan run.toml --set mesh.pp=4 --svg schedule.svg\n"
              "  troupe plan run.toml --hosts 'n[01-16]:8'\n"
              "  troupe plan run.toml --json\n"
              "  troupe plan run.toml --machine h100-sxm --devices 64\n"
              "  troupe plan run.toml --machine h100-sxm --devices 64 --search -o best.toml\n"
              "  troupe plan run.toml --machine h100-sxm --inference --batch 16 --context 8192");
  required(sub, "manifest", o.manifest, "FILE", "The run's manifest, a TOML file");
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
  sub->add_option("--hosts", o.hosts,
                  "Hosts with their slots, as a:2,b:2, in place of cluster.hosts; they need not be "
                  "up")
      ->type_name("HOST:SLOTS,...");
  add_machine_options(sub, o);
}

void add_measure(CLI::App& app, MeasureOptions& o) {
  CLI::App* sub = command(
      app, "measure", "Measure this machine's processor, and describe it for plans; takes a minute",
      "  troupe measure -o here.toml\n"
      "  troupe plan run.toml --machine here.toml\n"
      "Nothing else should run meanwhile.");
  required(sub, "-o,--output", o.output, "FILE", "File to write, a description of this machine");
  number(sub, "--threads", o.threads, 1, 1024, "Threads of a rank, as cluster.threads")
      ->type_name("N");
}

void add_launch(CLI::App& app, LaunchOptions& o) {
  CLI::App* sub = command(
      app, "launch", "Train: start the cluster, print a line for each step, write a run directory",
      "  troupe launch run.toml\n"
      "  troupe launch run.toml --set mesh.pp=2 --set run.dir=/data/runs/first\n"
      "  troupe launch --resume runs/first --set run.max_steps=2000\n"
      "  troupe launch run.toml --devices 8 --machine h100-sxm\n"
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
  number(sub, "--devices", o.devices, 1, 1 << 20,
         "Train on so many, with the fastest layout that a search finds for them")
      ->type_name("N")
      ->excludes(resume);
  sub->add_option("--machine", o.machine,
                  "What these are, or those of mesh.auto, as for plan; default: the preset of this "
                  "machine's GPUs")
      ->type_name("NAME|FILE")
      ->excludes(resume);
  from->needs(data);
  manifest->excludes(resume)->excludes(from);
  resume->excludes(from);
  add_host_options(sub, o.hosts);
  add_overrides(sub, o.overrides);
  sub->callback([&o] {
    if (o.manifest.empty() && o.resume.empty() && o.from.empty())
      throw CLI::RequiredError(
          "a manifest, --resume with a run directory, or --from with a model,");
  });
}

void add_doctor(CLI::App& app, DoctorOptions& o) {
  CLI::App* sub = command(
      app, "doctor",
      "Check this machine, or a run's hosts: cores, memory, shared memory, transports, libraries",
      "  troupe doctor\n"
      "  troupe doctor --hosts run.toml\n"
      "  troupe doctor --hosts run.toml --hostfile hosts --json\n"
      "With --hosts the run's hosts join as for a launch, look at themselves and at the network\n"
      "between them, and leave. Exit code 69 if a launch would be refused.");
  auto* hosts = sub->add_option("--hosts", o.hosts, "Check the hosts of the run of this manifest")
                    ->type_name("FILE");
  for (CLI::Option* option : add_host_options(sub, o.with)) option->needs(hosts);
  add_overrides(sub, o.overrides)->needs(hosts);
  sub->add_flag("--json", o.json, "Print one JSON object: hosts, links, equal, refusals, warnings")
      ->needs(hosts);
}

void add_join(CLI::App& app, JoinOptions& o) {
  CLI::App* sub = command(
      app, "join", "Offer this host to a run, until the run has ended",
      "  troupe join runs/first\n"
      "  troupe join --rendezvous head:29600 --token-file token\n"
      "The first needs a directory that both hosts share. SIGTERM has the run go on without the "
      "host.");
  auto* run = sub->add_option("run", o.run,
                              "Directory of a live run, or - for an invitation on standard input")
                  ->type_name("RUN");
  auto* rendezvous = sub->add_option("--rendezvous", o.rendezvous,
                                     "Where the launcher waits for hosts: a name and a port")
                         ->type_name("HOST:PORT")
                         ->excludes(run);
  auto* token = sub->add_option("--token-file", o.token_file,
                                "File with the secret that the launcher knows, of mode 0600")
                    ->type_name("FILE")
                    ->needs(rendezvous);
  rendezvous->needs(token);
  number(sub, "--slots", o.slots, 1, 65536, "Ranks that it may have; default: as the others")
      ->type_name("N");
  sub->add_option("--wait", o.wait_s,
                  "How long a launcher that is not there yet is tried; default 300")
      ->type_name("SECONDS");
  sub->callback([&o] {
    if (o.run.empty() && o.rendezvous.empty())
      throw CLI::RequiredError("a run's directory, or --rendezvous and --token-file,");
  });
}

void add_status(CLI::App& app, StatusOptions& o) {
  CLI::App* sub =
      command_of_run(app, o.run, "status", "Show what a run is doing, or how and when it ended",
                     "  troupe status runs/first\n"
                     "  troupe status runs/first --json\n"
                     "  troupe status runs/first --diagnose");
  sub->add_flag("--json", o.json, "Print one JSON object");
  sub->add_flag("--diagnose", o.diagnose,
                "Print what is wrong with the run; exit code 1 if something is");
}

void add_runs(CLI::App& app, RunsOptions& o) {
  CLI::App* sub = command(app, "runs", "List the runs in a directory, the newest first",
                          "  troupe runs\n"
                          "  troupe runs /data/runs --json\n"
                          "Directories below it are looked through, too, up to four levels.");
  sub->add_option("directory", o.directory, "Where to look for runs; default: runs")
      ->type_name("DIR");
  sub->add_flag("--json", o.json, "Print one JSON object, with a list of runs");
}

void add_attach(CLI::App& app, AttachOptions& o) {
  CLI::App* sub = command_of_run(
      app, o.run, "attach",
      "Watch a run on a screen, a live one also as a line for each event; leaving does not affect "
      "it",
      "  troupe attach runs/first\n"
      "  troupe attach runs/first --json --events step,failure,recovered\n"
      "Ctrl-C or q leaves, and ? explains the screen. A pipe, or a terminal that is dumb, gets "
      "lines.");
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
  required(sub, "runs", o.runs, "RUN", "Run directories; several are compared");
  auto* output = sub->add_option("-o,--output", o.output,
                                 "File to write; default: report.html in the run directory")
                     ->type_name("FILE.html");
  sub->add_flag("--json", o.json, "Print the page's data as one JSON object instead")
      ->excludes(output);
  sub->add_option("--machine", o.machine,
                  "The machine that the run was on, as for plan, to show what a step should take "
                  "there; default: that of its GPUs")
      ->type_name("NAME|FILE");
}

void add_trace(CLI::App& app, TraceOptions& o) {
  CLI::App* sub = command_of_run(
      app, o.run, "trace", "Record every action of some steps of a live run, for ui.perfetto.dev",
      "  troupe trace runs/first --steps 3 -o trace.json");
  number(sub, "--steps", o.steps, 1, 1000, "Steps to record");
  required(sub, "-o,--output", o.output, "FILE", "File to write, in the Chrome trace format");
}

void add_collectives(CLI::App& app, CollectivesOptions& o) {
  command_of_run(
      app, o.run, "collectives",
      "Name the collective that did not end, and the rank at fault, after an interruption",
      "  troupe collectives runs/first\n"
      "Reads what the ranks recorded when a step was interrupted: a rank was lost, or a wait "
      "took too long.");
}

void add_tap(CLI::App& app, TapOptions& o) {
  CLI::App* sub = command_of_run(
      app, o.run, "tap", "Look at tensors that travel over an edge of a live run, a JSON line each",
      "  troupe tap runs/first --edge 0:1 --every 10 --microbatch 0\n"
      "  troupe tap runs/first --edge 1:0 --backward --not-finite --dump\n"
      "A line has norm, mean, min, max, the elements that are not finite, and a histogram: bin 0 "
      "counts\nmagnitudes below 2^-40, bin i those in [2^(i-41), 2^(i-40)). Ctrl-C leaves.");
  required(sub, "--edge", o.edge, "FROM:TO", "Ranks of the sender and the receiver");
  sub->add_flag("--backward", o.request.backward, "Gradients instead of activations");
  number(sub, "--every", o.request.every, 1, kMost,
         "Only steps whose number is a multiple of this");
  sub->add_option("--microbatch", o.request.microbatch, "Only this one; default: all")
      ->check(number_between(0, kMost));
  sub->add_flag("--not-finite", o.request.only_not_finite,
                "Only tensors with an infinite element or a NaN");
  sub->add_flag("--dump", o.request.dump,
                "Write each as safetensors into taps/ of the run directory; the step waits for it");
  number(sub, "--samples", o.request.samples, 0, kMost,
         "Look at, print and dump this many tensors in all, then leave; 0: stay");
}

void add_scale(CLI::App& app, ScaleOptions& o) {
  CLI::App* sub = command_of_run(
      app, o.run, "scale",
      "Change a live run's stages, replicas, shards, schedule or hosts at the next step",
      "  troupe scale runs/first --pp 3\n"
      "  troupe scale runs/first --pp 3 --layout 3,2,1\n"
      "  troupe scale runs/first --layout 'Et|t*3|tL'\n"
      "  troupe scale runs/first --dp 2 --schedule gpipe\n"
      "  troupe scale runs/first --stage 1 --dp 2\n"
      "  troupe scale runs/first --without-host n07\n"
      "Another number of stages changes no loss; one of replicas or shards the order of sums.\n"
      "Returns when the first step of the new shape is committed, and prints what it cost.");
  number(sub, "--pp", o.request.pp, 1, 1024, "Pipeline stages")->type_name("N");
  number(sub, "--dp", o.request.dp, 1, 1024, "Replicas of the pipeline")->type_name("N");
  number(sub, "--tp", o.request.tp, 1, 1024, "Tensor-parallel shards of a stage")->type_name("N");
  number(sub, "--ep", o.request.ep, 1, 1024, "Replicas that share out the experts of a layer")
      ->type_name("N");
  number(sub, "--stage", o.request.stage, 0, 1023, "Which stage --dp and --tp are for; else all")
      ->type_name("N");
  sub->add_option("--layout", o.request.layout,
                  "How layers are split: even, ends, parameters, layers of each chunk as 3,2,1, or "
                  "Megatron-LM's letters")
      ->type_name("SPLIT");
  sub->add_option("--schedule", o.request.schedule,
                  "A schedule's name; csv: back to the manifest's own plan")
      ->type_name("KIND");
  sub->add_option("--without-host", o.request.without_hosts,
                  "A host that is to have no rank any more, and whose agent ends; may be repeated")
      ->type_name("HOST")
      ->expected(1)
      ->take_all();
  number(sub, "--hosts", o.request.hosts, 1, 65536,
         "Hosts that may have ranks; those with the fewest, and that joined last, are left")
      ->type_name("N");
  sub->add_flag("--json", o.json, "Print one JSON object: code (0), text");
}

void add_checkpoint(CLI::App& app, CheckpointOptions& o) {
  CLI::App* sub =
      command_of_run(app, o.run, "checkpoint",
                     "Save a live run at its next step, which goes on meanwhile; prints where",
                     "  troupe checkpoint runs/first\n"
                     "Returns when the checkpoint is complete. One is made at a time.");
  sub->add_flag("--json", o.json, "Print one JSON object: step, checkpoint");
}

void add_hosts(CLI::App& app, HostsOptions& o) {
  CLI::App* sub = command_of_run(app, o.run, "hosts",
                                 "List the hosts of a live run: their states, addresses and ranks",
                                 "  troupe hosts runs/first");
  sub->add_flag("--json", o.json,
                "Print a JSON list: host, state (joined, spare, draining or lost), incarnation, "
                "slots, ranks, address, cause, losses, clock, bytes");
}

void add_stop(CLI::App& app, StopOptions& o) {
  CLI::App* sub = command_of_run(
      app, o.run, "stop",
      "End a run in order: finish the step, save a checkpoint; returns when it has ended",
      "  troupe stop runs/first");
  sub->add_flag("--json", o.json,
                "Print one JSON object: exit_code, step, reason, ended, checkpoint");
}

}  // namespace troupe::launch

#include <limits>

#include "launch/commands/subcommand.h"

// The command lines of commands that need no run: they work with a model, text or a schedule.

namespace troupe::launch {
namespace {

/// What commands that compute with a model say of it.
constexpr const char* kCheckpoint =
    "A checkpoint directory, step-N, a run, whose newest checkpoint is taken, the file best in its "
    "checkpoints, or a Hugging Face directory";

constexpr const char* kCopyAsJson =
    "Print one JSON object: directory, files, unused_fields, left_out, tokenizer; no progress";

/// Adds the options of a command that may divide its model among processes.
void add_division(CLI::App* sub, int& tp, int& pp) {
  number(sub, "--tp", tp, 1, 1024, "Shards of each layer, each a process with some of its heads");
  number(sub, "--pp", pp, 1, 1024, "Stages of the layers, each of --tp processes");
}

/// Adds the options of a command that computes with a model.
void add_device(CLI::App* sub, std::string& device, int& threads) {
  sub->add_option("--device", device, "What to compute with: cpu, or cuda, an NVIDIA GPU")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  number(sub, "--threads", threads, 0, 1024,
         "Compute threads, which the shards of a stage share out; 0: one for each free core. Sums "
         "depend on their number in the last bits");
}

/// Adds an option for what is put around texts.
void add_mark(CLI::App* sub, const char* name, std::optional<std::string>& mark,
              const std::string& what) {
  sub->add_option(name, mark, what + "; none, or auto; default: as in training")
      ->type_name("TOKEN");
}

}  // namespace

void add_generate(CLI::App& app, GenerateOptions& o) {
  CLI::App* sub = command(
      app, "generate", "Write text with a checkpoint's model",
      "  troupe generate runs/first/checkpoints/step-1000 --prompt 'Once upon'\n"
      "  troupe generate runs/first/checkpoints/step-1000 --prompt 'The ' --tokens 200 --seed 7 "
      "--temperature 0\n"
      "  troupe generate runs/first/checkpoints/step-1000 --prompt-file prompts.txt --top-p 0.9 "
      "--json\n"
      "  troupe generate runs/first/checkpoints/step-1000 --prompt 'The ' --pp 2 --tp 2\n"
      "A text ends after --tokens, after the model's end token, and before a --stop.");
  required(sub, "checkpoint", o.checkpoint, "CHECKPOINT", kCheckpoint);
  auto* prompt = sub->add_option("--prompt", o.prompt, "Text to go on with");
  auto* prompt_file =
      sub->add_option("--prompt-file", o.prompt_file, "A file of such texts, one in each line")
          ->type_name("FILE")
          ->excludes(prompt);
  sub->callback([prompt, prompt_file] {
    if (prompt->empty() && prompt_file->empty())
      throw CLI::RequiredError("--prompt, or --prompt-file,");
  });
  sub->add_flag("--chat", o.chat,
                "Take each prompt as what a user says, and answer it by the model's chat template");
  add_mark(sub, "--bos", o.bos, "Token that a prompt begins with, as data.bos");
  number(sub, "--tokens", o.tokens, 1, 1'000'000, "Tokens to write");
  number(sub, "--seed", o.sampling.seed, std::uint64_t{0},
         std::numeric_limits<std::uint64_t>::max(), "The same seed gives the same text");
  number(sub, "--temperature", o.sampling.temperature, 0.0, 100.0,
         "Below 1 likely tokens are favoured, above 1 unlikely ones; 0 always takes the likeliest");
  number(sub, "--top-k", o.sampling.top_k, std::int64_t{0},
         std::numeric_limits<std::int64_t>::max(),
         "Draw among the k likeliest tokens; 0: among all");
  number(sub, "--top-p", o.sampling.top_p, 0.0, 1.0,
         "Draw among the likeliest tokens that together have this probability");
  sub->add_option("--stop", o.stops, "End before this text; may be given several times")
      ->type_name("TEXT")
      ->check([](const std::string& text) {
        return text.empty() ? std::string("an empty text would end everything") : std::string();
      })
      ->expected(1)
      ->take_all();
  sub->add_flag("--json", o.json, "Print one JSON object, with ids and tokens per second");
  add_division(sub, o.tp, o.pp);
  add_device(sub, o.device, o.threads);
}

void add_eval(CLI::App& app, EvalOptions& o) {
  CLI::App* sub = command(
      app, "eval", "Mean loss of a checkpoint's model on text",
      "  troupe eval runs/first/checkpoints/step-1000 --files held-out.txt\n"
      "  troupe eval runs/first/checkpoints/step-1000 --files 'books/*.txt' --steps 100 --json\n"
      "  troupe eval runs/first/checkpoints/step-1000 --files held-out.txt --pp 2");
  required(sub, "checkpoint", o.checkpoint, "CHECKPOINT", kCheckpoint);
  required(sub, "--files", o.files, "FILE", "Text files or globs, or one .bin with its .idx");
  number(sub, "--steps", o.steps, 1, kMost, "Steps of 8 samples, each read once at most");
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
  add_mark(sub, "--bos", o.bos, "Token that a document begins with, as data.bos");
  add_mark(sub, "--end-of-document", o.end_of_document,
           "Token that a document ends with, as data.end_of_document");
  sub->add_flag("--json", o.json, "Print one JSON object");
  add_division(sub, o.tp, o.pp);
  add_device(sub, o.device, o.threads);
}

void add_logits(CLI::App& app, LogitsOptions& o) {
  CLI::App* sub = command(
      app, "logits", "Write what a checkpoint's model computes for lists of token ids",
      "  troupe logits runs/first/checkpoints/step-1000 --ids ids.jsonl -o logits.safetensors\n"
      "The file has a tensor logits.I [tokens, vocabulary] in float32 for each line I, from 0; "
      "of a value\n"
      "head [tokens, 1].");
  required(sub, "checkpoint", o.checkpoint, "CHECKPOINT", kCheckpoint);
  required(sub, "--ids", o.ids, "FILE", "File with a JSON list of token ids in each line");
  required(sub, "-o,--output", o.output, "FILE", "safetensors file to write");
  add_device(sub, o.device, o.threads);
}

void add_import(CLI::App& app, ImportOptions& o) {
  CLI::App* sub = command(app, "import", "Make a checkpoint of a Hugging Face model",
                          "  troupe import Llama-3.2-1B checkpoints/llama\n"
                          "Weights keep every bit; config.json, tokenizer, generation settings and "
                          "chat template come along.\nOther commands take such a directory as it "
                          "is, too.");
  required(sub, "model", o.model, "MODEL", "A directory with config.json and safetensors");
  required(sub, "output", o.output, "DIR", "Directory of the checkpoint, which must not exist");
  sub->add_flag("--json", o.json, kCopyAsJson);
}

void add_export(CLI::App& app, ExportOptions& o) {
  CLI::App* sub = command(app, "export", "Make a Hugging Face model of a checkpoint",
                          "  troupe export runs/first/checkpoints/step-1000 my-model\n"
                          "  troupe export runs/first/checkpoints/step-1000 my-model --dtype "
                          "bfloat16");
  required(sub, "checkpoint", o.checkpoint, "CHECKPOINT", kCheckpoint);
  required(sub, "output", o.output, "DIR", "Directory of the model, which must not exist");
  sub->add_option("--dtype", o.dtype, "Type of the weights; default: as they are stored")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  sub->add_flag("--json", o.json, kCopyAsJson);
}

void add_tokenize(CLI::App& app, TokenizeOptions& o) {
  CLI::App* sub = command(
      app, "tokenize", "Turn text into an indexed dataset, PREFIX.bin and PREFIX.idx",
      "  troupe tokenize books/*.txt --tokenizer spm.model -o data/books\n"
      "  troupe tokenize corpus.jsonl --tokenizer tokenizer.json --append '</s>' -o data/corpus\n"
      "Each object of JSON lines, or of a list of JSON, is a document: its \"text\", \"prompt\" "
      "and "
      "\"response\",\nor \"messages\", or what alpaca, dolly and ShareGPT have; any other file is "
      "one "
      "document.");
  required(sub, "files", o.files, "FILE", "Text or JSONL files, or globs");
  sub->add_option(
         "--tokenizer", o.tokenizer,
         "bytes, a SentencePiece .model, a tokenizer.json, tekken.json, .tiktoken or vocab.json")
      ->capture_default_str();
  required(sub, "-o,--output", o.output, "PREFIX", "Path of the dataset without .bin and .idx");
  sub->add_flag("--add-special-tokens", o.add_special_tokens,
                "Put around each document what the tokenizer's own files say, as data.bos and "
                "data.end_of_document do by default");
  sub->add_option("--bos", o.bos, "Token that a document begins with, as data.bos")
      ->type_name("TOKEN")
      ->capture_default_str();
  sub->add_option("--end-of-document", o.end_of_document,
                  "Token that a document ends with, as data.end_of_document")
      ->type_name("TOKEN")
      ->capture_default_str();
  sub->add_option("--append", o.append, "Put this token behind each document, as </s>")
      ->type_name("TOKEN");
  sub->add_option("--fields", o.fields,
                  "What the members of JSON objects are called, as data.fields: prompt=question")
      ->type_name("NAME=THEIRS");
  sub->add_option("--on-bad-line", o.on_bad_line, "What becomes of a line that is no document")
      ->check(CLI::IsMember({"stop", "skip"}))
      ->capture_default_str();
  sub->add_option("--date", o.date, "Day that chat templates are told; default: today")
      ->type_name("YYYY-MM-DD");
  sub->add_flag("--json", o.json, "Print one JSON object: prefix, tokens, documents, sequences");
}

void add_schedule(CLI::App& app, ScheduleOptions& o) {
  CLI::App* sub = command(
      app, "schedule", "Generate, check, simulate, compare and draw pipeline schedules",
      "  troupe schedule --kind zb-h1 --stages 4 --microbatches 8 --grid\n"
      "  troupe schedule --kind interleaved --stages 8 --chunks 3 --microbatches 24 --costs "
      "F=18.522,I=18.086,W=9.337,hop=0.601 --json\n"
      "  troupe schedule --stages 4 --microbatches 16 --compare 1f1b,zb-h1,zb-v,v-half\n"
      "  troupe schedule --kind csv:plan.csv --svg plan.svg --trace plan.json");
  sub->add_option("--kind", o.kind, "A schedule's name, or csv:FILE")->type_name("NAME");
  number(sub, "--stages", o.stages, 1, kMost, "Pipeline ranks")->type_name("P");
  number(sub, "--chunks", o.chunks, 1, kMost, "Chunks a rank; default: the schedule's own")
      ->type_name("V");
  number(sub, "--microbatches", o.microbatches, 1, kMost, "Microbatches of a step")->type_name("M");
  sub->add_option("--costs", o.costs,
                  "Durations of a whole stage in any one unit: F, I, W, B (default I+W), pair "
                  "(default F+B), F=1:2:1 by stage; cF, cI, cW, cB (waits for collectives of "
                  "shards, which pairs hide); gF, gB (gathers of divided weights beside them, in "
                  "units a chunk, ahead of the one computed with); hop (latency), link (bytes / "
                  "bandwidth), optimizer")
      ->capture_default_str();
  number(sub, "--memory", o.memory, 0.0, 1e9,
         "Most microbatches of a stage that a searched schedule holds: F takes 1, I and W "
         "give 1/2 back")
      ->type_name("N");
  sub->add_option("--group-size", o.group_size,
                  "Microbatches that interleaved takes through a chunk together, or rounds, for "
                  "the groups of PyTorch; default: P")
      ->type_name("N");
  sub->add_option("--compare", o.compare, "Print a table of these schedules, best first")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,...");
  sub->add_flag("--blocking-sends", o.blocking_sends, "A rank waits until its message has arrived");
  sub->add_flag("--no-barrier", o.no_barrier, "The optimizer waits for no other rank");
  sub->add_flag("--json", o.json, "Print one JSON object");
  sub->add_flag("--csv", o.csv, "Print the plan, a line a rank");
  sub->add_flag("--grid", o.grid, "Print a drawing");
  sub->add_option("--svg", o.svg, "Draw the schedule into this file")->type_name("FILE");
  sub->add_option("--axis", o.axis, "Unit of the drawing's axis: slots or time")
      ->check(CLI::IsMember({"slots", "time"}))
      ->capture_default_str();
  sub->add_option("--trace", o.trace, "Write a timeline for Perfetto into this file")
      ->type_name("FILE");
}

}  // namespace troupe::launch

#include "launch/manifest/keys/defaults.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launch/manifest/keys/checkpoint_keys.h"
#include "launch/manifest/keys/data_parallel_keys.h"
#include "launch/manifest/keys/eval_keys.h"
#include "launch/manifest/keys/group_keys.h"
#include "launch/manifest/keys/key_rules.h"
#include "launch/manifest/keys/mix_keys.h"
#include "launch/manifest/keys/model_keys.h"
#include "launch/manifest/keys/monitor_keys.h"
#include "stages/corpus/text/documents.h"

namespace troupe::launch {
namespace {

using enum Kind;

template <std::size_t n, std::size_t m>
constexpr std::array<Key, n + m> joined(const std::array<Key, n>& first,
                                        const std::array<Key, m>& second) {
  std::array<Key, n + m> all{};
  std::ranges::copy(second, std::ranges::copy(first, all.begin()).out);
  return all;
}

constexpr std::array<std::string_view, 2> kReaders{"every-shard", "first-shard"};
constexpr std::array<std::string_view, 3> kOnFailure{"replace", "shrink", "stop"};
constexpr std::array<std::string_view, 4> kRecomputeModes{"none", "selective", "output", "full"};
constexpr std::array<std::string_view, 2> kRecomputeMethods{"uniform", "block"};
constexpr std::array<std::string_view, 2> kDevices{"cpu", "cuda"};
constexpr std::array<std::string_view, 2> kMatmuls{"float32", "tf32"};
constexpr std::array<std::string_view, 4> kDecays{"constant", "linear", "cosine", "wsd"};

constexpr std::array kRunKeys{
    Key{"run", "name", text, "", "",
        "Name of the run; default: the manifest's file name without .toml"},
    Key{"run", "seed", integer, "1", "",
        "Seed of initial weights, shuffling and dropout; fixed, so that runs repeat", kNotNegative},
    Key{"run", "dir", text, "", "path",
        "Run directory; default: runs/<name>. Relative to the current directory, because it is an "
        "output"},
    Key{"run", "max_steps", integer, "1000", "steps",
        "Last step, counted from the first start, also after a resume; long enough to see a loss "
        "fall",
        Rule{.min = 1, .max = 1e12}},
    Key{"run", "derived", texts, "[]", "keys",
        "Written by launch: the keys of this file that follow from others or from the machine. "
        "They are derived again when the file is read; a key that is taken out of this list, or "
        "set by an override, is as it is given"},
    Key{"run", "changed", texts, "[]", "",
        "Written by launch: what was changed on the way, by a resume or a live change, and from "
        "which step on. A launch of this file repeats the run if nothing was; else it trains all "
        "steps as the last ones. Replaced when given"},
};

constexpr std::array kOtherKeys{
    Key{"data", "files", texts, "[]", "paths",
        "Text files or globs in order (each glob sorted bytewise), or one .bin with its .idx; JSON "
        "lines (.jsonl, .ndjson, .json) are read as the \"text\" of every line, its \"prompt\" and "
        "\"response\", or its \"messages\". This or data.mix must be given"},
    Key{"data", "mix", mix, "[]", "",
        "Several sources instead of files, each a table [[data.mix]] with the keys below. Samples "
        "are drawn by weight, and each source is read in its own order, again when it ends"},
    Key{"data", "tokenizer", text, "\"bytes\"", "path",
        "A tokenizer.json, a SentencePiece .model, or bytes, which needs no file: a token's id is "
        "the byte's value"},
    Key{"data", "shuffle", boolean, "false", "",
        "Samples of each source in a seeded random order; off, so that others can replay a run"},
    Key{"data",
        "loss_on",
        text,
        "\"all\"",
        "",
        "Which tokens of a document are trained: all but the first; or response, those of the "
        "\"response\" of each line of JSON, not those of its \"prompt\", or what the assistant "
        "says in its \"messages\". All, as plain text has no prompts",
        {},
        stages::kLossOnNames},
    Key{"data",
        "reader",
        text,
        "\"every-shard\"",
        "",
        "Which shards of a stage open the token files: each, as to read a file again costs "
        "nothing; or the first alone, which sends the others the tokens of each step, where they "
        "cannot see the files",
        {},
        kReaders},
    Key{"data", "tokens", text, "", "path",
        "Written by launch: the token file made of data.files. Replaced when given"},
    Key{"data", "digest", text, "", "",
        "Written by launch: XXH64 of the token ids, by which a resume knows the corpus. Replaced "
        "when given"},

    Key{"batch", "seq_len", integer, "256", "tokens", "Length of a sample; fits a laptop",
        from_one_to(1048576)},
    Key{"batch", "micro", integer, "4", "samples",
        "Samples that a stage computes at once, packed ones on average; keeps two cores busy",
        from_one_to(65536)},
    Key{"batch", "global", integer, "16", "samples",
        "Samples of a step, over all replicas; a multiple of micro * dp. Four microbatches by "
        "default",
        from_one_to(16777216)},
    Key{"batch",
        "documents",
        text,
        "\"joined\"",
        "",
        "How the corpus becomes samples: joined, one stream of tokens cut every seq_len, across "
        "the bounds of documents; padded, each document (a line of JSON, a document of an .idx, or "
        "another file) by itself, cut where it is longer than seq_len, in a row that "
        "padding fills up; or packed, the same samples side by side without padding, which costs "
        "less. joined, as corpora of plain text have no documents",
        {},
        stages::kDocumentsNames},

    Key{"optimizer", "lr", number, "0.001", "", "Peak learning rate; usual for models of this size",
        kFinite},
    Key{"optimizer", "betas", pair, "[0.9, 0.95]", "",
        "AdamW's two decay rates; usual for language models", kFraction},
    Key{"optimizer", "eps", number, "1e-08", "", "AdamW's epsilon; torch's default", kPositive},
    Key{"optimizer", "weight_decay", number, "0.1", "",
        "Decoupled weight decay; usual for language models", kFinite},
    Key{"optimizer", "decay_all", boolean, "false", "",
        "Weight decay on norms and biases too; usually it is on matrices only"},
    Key{"optimizer", "clip", number, "1.0", "", "Largest gradient norm, 0: no clipping; 1 is usual",
        kFinite},
    Key{"optimizer", "warmup_steps", integer, "0", "steps",
        "Step k uses lr * k / warmup_steps while k is below it; none unless asked for",
        Rule{.min = 0, .max = 1e12}},
    Key{"optimizer",
        "decay",
        text,
        "\"constant\"",
        "",
        "How lr falls after the warm-up; by default it does not",
        {},
        kDecays},
    Key{"optimizer", "decay_steps", integer, "", "steps",
        "Steps from the end of the warm-up to min_lr (wsd: the last ones of max_steps). Default: "
        "all after the warm-up "
        "(wsd: a tenth of max_steps; constant: 0)",
        Rule{.min = 0, .max = 1e12}},
    Key{"optimizer", "min_lr", number, "0.0", "",
        "Learning rate at the end of the decay; by default it decays to 0", kFinite},
    Key{"optimizer", "group", groups, "[]", "",
        "Parameters that are trained otherwise, each a table [[optimizer.group]] with the keys "
        "below. The first table that matches a parameter decides; what none matches is trained as "
        "the keys above say"},

    Key{"mesh", "pp", integer, "1", "stages",
        "Pipeline stages, a process each; one process unless asked for", from_one_to(1024)},
    Key{"mesh", "dp", integer, "1", "replicas",
        "Data-parallel copies of the pipeline; one unless asked for", from_one_to(1024)},
    Key{"mesh", "tp", integer, "1", "shards",
        "Tensor-parallel shards of a stage, a process each; they divide its heads, its "
        "feed-forward "
        "width and the vocabulary",
        from_one_to(1024)},
    Key{"mesh", "sequence_parallel", boolean, "false", "",
        "Whether shards divide the tokens between their layers too, which takes less memory and "
        "the same communication. Has no effect on one shard"},
    Key{"mesh", "layout", text, "\"\"", "",
        "How layers are split over chunks: even (or empty), ends, parameters, the layers of each "
        "chunk as 3,2,1, or Megatron-LM's letters; the rules are below. Even is right if layers "
        "outweigh embedding and head"},

    Key{"schedule", "kind", text, "\"1f1b\"", "",
        "A schedule's name, csv, or auto, which measures some steps and then takes the fastest "
        "that changes no loss; 1f1b has gpipe's bubble with the least memory"},
    Key{"schedule", "chunks", integer, "", "chunks",
        "Chunks of a stage; default: the schedule's own (1 or 2), the plan's for csv",
        from_one_to(4096)},
    Key{"schedule", "csv", text, "\"\"", "path",
        "Plan file for kind csv; a text with a line break is the plan itself"},
    Key{"schedule", "costs", text, "\"\"", "",
        "What a searched schedule is made for, as troupe schedule --costs takes it, with one value "
        "or one for each chunk; auto writes here what it measured, whichever schedule it takes. "
        "plan then tells the share of a step that stages wait for collectives of shards and for "
        "divided weights. Empty: all actions alike"},
    Key{"schedule", "auto_layout", boolean, "false", "",
        "Measure the stages, and move layers between them if that makes steps shorter; off, "
        "because a move stops the run for a moment"},
    Key{"schedule", "auto_layout_gain", number, "0.05", "",
        "Share of a step that a move must gain in the simulation; more than the simulator's error",
        Rule{.min = 0, .max = 1, .below_max = true}},
    Key{"schedule", "auto_layout_steps", integer, "100", "steps",
        "At most one measurement, and so one move, in so many steps; their times outweigh its cost",
        Rule{.min = 10, .max = 1e12}},

    Key{"recompute",
        "mode",
        text,
        "\"none\"",
        "",
        "What backwards compute again instead of keeping it, which changes no loss: nothing; "
        "selective: the core of attention; output: the outputs of norms and SwiGLU; full: whole "
        "layers from their inputs, for the time of another forward. Nothing by default, as time "
        "comes before memory",
        {},
        kRecomputeModes},
    Key{"recompute",
        "method",
        text,
        "\"uniform\"",
        "",
        "What full computes again: uniform: all layers of a chunk, in groups of num_layers, each "
        "from its input; block: the first num_layers of each chunk, each from its own input. "
        "Uniform takes the least memory",
        {},
        kRecomputeMethods},
    Key{"recompute", "num_layers", integer, "1", "layers",
        "Layers of a group, or of a chunk's block; single layers keep the most inputs, but need "
        "the least memory while they are computed again",
        from_one_to(4096)},
    Key{"recompute", "kept_microbatches", integer, "0", "microbatches",
        "Of the microbatches that a chunk holds at once, so many keep everything: the first ones "
        "of each window, if it holds more. None by default; more take memory and save time",
        Rule{.min = 0, .max = 1e6}},
    Key{"recompute", "distribute_saved_activations", boolean, "false", "",
        "Whether each shard keeps a part of every input that full keeps, and all of them gather it "
        "again. Not with mesh.sequence_parallel, where each has tokens of its own; has no effect "
        "on one shard. Off, because it takes a collective a group"},
};

constexpr std::array kLaterKeys{
    Key{"cluster",
        "device",
        text,
        "\"cpu\"",
        "",
        "What a rank computes with: cpu, its cores; or cuda, an NVIDIA GPU, the first of those "
        "that CUDA_VISIBLE_DEVICES names, and pp = dp = tp = 1. The CPU, as every machine has one",
        {},
        kDevices},
    Key{"cluster",
        "matmul",
        text,
        "\"float32\"",
        "",
        "What a GPU multiplies float32 with: float32, or tf32, several times as fast, which rounds "
        "factors to 11 bits. float32, as exactness comes before speed",
        {},
        kMatmuls},
    Key{"cluster", "deterministic", boolean, "true", "",
        "Whether a GPU gives the same bits each time. false lets it add gradients in any order and "
        "choose products by a clock, which takes less time and memory; on, so that runs repeat"},
    Key{"cluster", "threads", integer, "1", "threads",
        "Compute threads of a rank. The last bits of a loss depend on it, so it does not follow "
        "the machine",
        from_one_to(1024)},
    Key{"cluster", "pin", boolean, "", "",
        "Bind ranks to cores of their own; default: unless ranks * threads exceed the free cores, "
        "or a control group has a quota of time"},
    Key{"cluster", "spin", boolean, "", "",
        "Wait for messages by polling; default: if ranks * (threads + 1) fit the free cores, "
        "without a quota of time"},
    Key{"cluster", "port", integer, "0", "port",
        "Loopback port of status and stop, 0: any free one", Rule{.min = 0, .max = 65535}},

    Key{"recovery", "on_failure", text, "\"replace\"", "",
        "What to do about a lost worker: replace it, shrink to the ranks left, or stop: save what "
        "memory holds, for which neighbour_copies must be on, and end the run",
        std::nullopt, kOnFailure},
    Key{"recovery", "spares", integer, "0", "processes",
        "Warm workers kept ready to take a lost one's place; each takes memory",
        Rule{.min = 0, .max = 4096}},
    Key{"recovery", "silent", number, "3.0", "seconds",
        "A worker without a sign of life for so long is lost, 0: never",
        Rule{.min = 0, .max = 86400}},
    Key{"recovery", "hang", number, "5.0", "seconds",
        "A worker whose action takes this long, and 8 times as long as the longest so far, is lost "
        "too; 0: never",
        Rule{.min = 0, .max = 86400}},
    Key{"recovery", "restarts_per_hour", integer, "100", "losses",
        "If more workers are lost in an hour, something is broken: the run ends in order, with all "
        "state saved",
        Rule{.min = 0, .max = 1e6}},
    Key{"recovery", "neighbour_copies", boolean, "true", "",
        "Each stage holds its neighbour's state: a lost worker costs at most one step, at the "
        "price of three times the state's memory more, 37 bytes a parameter. With "
        "data_parallel.sharding each replica holds another's moments instead: 8 bytes a parameter, "
        "divided by mesh.dp, and a lost worker costs nothing"},
};

constexpr auto kKeys = joined(joined(joined(kRunKeys, kModelKeys), kOtherKeys),
                              joined(joined(kDataParallelKeys, joined(kCheckpointKeys, kEvalKeys)),
                                     joined(kLaterKeys, kMonitorKeys)));

constexpr std::string_view kNotAveraged =
    "nothing is averaged: each loss is divided by the number of tokens of the step already";
constexpr std::string_view kWireIsSumInFloat32 =
    "grad_reduce_dtype says what travels, and every sum is in float32";

constexpr std::array kForeignKeys{
    ForeignKey{"data_parallel", "average_in_collective", kNotAveraged},
    ForeignKey{"data_parallel", "gradient_reduce_div_fusion", kNotAveraged},
    ForeignKey{"data_parallel", "grad_reduce_in_fp32", kWireIsSumInFloat32},
    ForeignKey{"data_parallel", "reduce_scatter_with_fp32_accumulation", kWireIsSumInFloat32},
    ForeignKey{"data_parallel", "num_distributed_optimizer_instances",
               "the key is num_optimizer_instances"},
    ForeignKey{"data_parallel", "use_distributed_optimizer",
               "sharding says what the replicas divide"},
    ForeignKey{"data_parallel", "data_parallel_sharding_strategy",
               "sharding says what the replicas divide"},
    ForeignKey{"data_parallel", "check_for_nan_in_grad", "the key is check_for_nan"},
    ForeignKey{"data_parallel", "check_for_large_grads",
               "large_grad_norm is the norm from which a bucket is reported"},
    ForeignKey{"data_parallel", "pad_buckets_for_high_nccl_busbw",
               "buckets end with parameters, so that no layout depends on the number of replicas"},
    ForeignKey{"data_parallel", "delay_wgrad_compute",
               "a schedule.kind such as zb-h1 computes weight gradients later"},
};

}  // namespace

std::span<const ForeignKey> foreign_keys() {
  return kForeignKeys;
}

std::span<const Key> manifest_keys() {
  return kKeys;
}

std::span<const Key> mix_keys() {
  return kMixKeys;
}

std::span<const Key> set_keys() {
  return kSetKeys;
}

std::span<const Key> group_keys() {
  return kGroupKeys;
}

const Key* find_key(std::string_view table, std::string_view name) {
  const auto found =
      std::ranges::find_if(kKeys, [&](const Key& k) { return k.table == table && k.name == name; });
  return found == kKeys.end() ? nullptr : &*found;
}

std::string range_text(const Rule& rule) {
  const auto end = [](double x) {
    return x < 1e15 ? fmt::format("{:.0f}", x) : fmt::format("{}", x);
  };
  const std::string low =
      fmt::format("{} {}", rule.above_min ? "above" : "at least", end(rule.min));
  if (rule.max == kInfinity) return rule.below_max ? low + " and finite" : low;
  return fmt::format("{} and {} {}", low, rule.below_max ? "below" : "at most", end(rule.max));
}

std::vector<std::string_view> manifest_tables() {
  std::vector<std::string_view> tables;
  for (const Key& key : kKeys)
    if (tables.empty() || tables.back() != key.table) tables.push_back(key.table);
  return tables;
}

}  // namespace troupe::launch

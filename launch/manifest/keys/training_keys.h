#pragma once

#include <array>
#include <string_view>

#include "launch/manifest/keys/key.h"
#include "stages/corpus/text/documents.h"

// The keys of [data], [batch] and [optimizer], and of their lists of tables. Only keys.cpp includes
// this.

namespace troupe::launch {

inline constexpr std::array<std::string_view, 2> kReaders{"every-shard", "first-shard"};
inline constexpr std::array<std::string_view, 4> kDecays{"constant", "linear", "cosine", "wsd"};

inline constexpr std::array<std::string_view, 3> kValidations{"barrier", "post", "auto"};

inline constexpr std::array kTrainingKeys{
    Key{"data", "files", SETTING(text.files), "[]", "paths",
        "Text files or globs in order (each glob sorted bytewise), or one .bin with its .idx; JSON "
        "(.jsonl, .ndjson, .json: objects in lines, or one list of them) is read by the members of "
        "each object: \"text\", \"messages\", \"prompt\" with \"response\", or those of alpaca, "
        "dolly "
        "and ShareGPT. All may be packed by gzip, zstd or xz. This or data.mix must be given",
        kAny,
        "dataset data_path data.path data.paths data_files train_data train_file train_files "
        "corpus"},
    Key{"data", "mix", SETTING(data.sources), "[]", "",
        "Several sources instead of files, each a table [[data.mix]] with the keys below. Samples "
        "are drawn by weight, and each source is read in its own order, again when it ends",
        kAny, "data_mix mixture data_weights blend"},
    Key{"data", "tokenizer", SETTING(data.tokenizer), "\"bytes\"", "path",
        "A tokenizer.json, a SentencePiece .model, a tekken.json, a file of tiktoken, a vocab.json "
        "beside its merges.txt, or bytes, which needs no file: a token's id is the byte's value",
        kAny, "tokenizer_path tokenizer_name tokenizer_model tokenizer_file"},
    Key{"data", "shuffle", SETTING(data.shuffle), "false", "",
        "Samples of each source in a seeded random order; off, so that others can replay a run"},
    Key{"data", "loss_on", SETTING(data.loss_on, stages::kLossOnNames), "\"all\"", "",
        "Which tokens of a document are trained: all but the first; or response, those of the "
        "\"response\" of each line of JSON, not those of its \"prompt\", or what the assistant "
        "says in its \"messages\". All, as plain text has no prompts"},
    Key{"data", "fields", SETTING(data.rules.fields), "{}", "",
        "What the members of JSON objects are called, by the names that are known here: text, "
        "prompt, response, messages, instruction, input, output, system, tools, as in {prompt = "
        "\"question\", response = \"answer\"}. Empty: they are found by their names",
        kAny, "columns field_mapping column_mapping"},
    Key{"data", "on_bad_line", SETTING(data.rules.on_bad_line, stages::kBadLinesNames), "\"stop\"",
        "",
        "What becomes of an object of JSON that is broken or no document: stop refuses the file; "
        "skip leaves it out, and tells how many there were. stop, as losses are seldom meant"},
    Key{"data", "bos", SETTING(data.rules.bos), "\"auto\"", "",
        "The token that a document begins with, by name, or none. auto: what the tokenizer's own "
        "files put before a text, but nothing before texts that are joined. generate begins a "
        "prompt so",
        kAny, "bos_token add_bos add_bos_token"},
    Key{"data", "end_of_document", SETTING(data.rules.end_of_document), "\"auto\"", "",
        "The token that a document ends with, by name, or none. auto: what the tokenizer's own "
        "files put behind a text, but nothing behind texts that are joined",
        kAny, "append_eod eod eod_token eos_token add_eos_token"},
    Key{"data", "date", SETTING(data.rules.date), "\"\"", "",
        "The day that chat templates are told, as 2024-07-26. Empty: the day of the first start, "
        "which the resolved manifest keeps, if the template asks for one"},
    Key{"data", "reader", SETTING(data.first_shard_reads, kReaders), "\"every-shard\"", "",
        "Which shards of a stage open the token files: each, as to read a file again costs "
        "nothing; or the first alone, which sends the others the tokens of each step, where they "
        "cannot see the files"},
    Key{"data", "tokens", SETTING(text.tokens), "", "path",
        "Written by launch: the token file made of data.files. Replaced when given"},
    Key{"data", "digest", SETTING(data.digest), "", "",
        "Written by launch: XXH64 of the token ids, by which a resume knows the corpus. Replaced "
        "when given"},

    Key{"batch", "seq_len", SETTING(batch.seq_len), "256", "tokens",
        "Length of a sample; fits a laptop", from_one_to(1048576),
        "seq_length seqlen sequence_length max_seq_len max_seq_length context context_length "
        "block_size n_ctx n_positions cutoff_len"},
    Key{"batch", "micro", SETTING(batch.micro), "4", "samples",
        "Samples that a stage computes at once, packed ones on average; keeps two cores busy",
        from_one_to(65536),
        "micro_batch_size micro_batch mbs microbatch_size per_device_train_batch_size "
        "device_batch_size local_batch_size"},
    Key{"batch", "global", SETTING(batch.global), "16", "samples",
        "Samples of a step, over all replicas; a multiple of micro * dp. Four microbatches by "
        "default",
        from_one_to(16777216),
        "batch_size bs gbs global_batch_size global_batch train_batch_size total_batch_size"},
    Key{"batch", "documents", SETTING(batch.documents, stages::kDocumentsNames), "\"joined\"", "",
        "How the corpus becomes samples: joined, one stream of tokens cut every seq_len, across "
        "the bounds of documents; padded, each document (a line of JSON, a document of an .idx, or "
        "another file) by itself, cut where it is longer than seq_len, in a row that padding fills "
        "up; or packed, the same samples side by side without padding, which costs less. joined, "
        "as corpora of plain text have no documents"},

    Key{"optimizer", "lr", SETTING(optimizer.lr), "0.001", "",
        "Peak learning rate; usual for models of this size", kFinite,
        "learning_rate max_lr peak_lr base_lr"},
    Key{"optimizer", "betas", SETTING(betas), "[0.9, 0.95]", "",
        "AdamW's two decay rates; usual for language models", kFraction,
        "beta1 beta2 adam_beta1 adam_beta2 adam_betas"},
    Key{"optimizer", "eps", SETTING(optimizer.eps), "1e-08", "", "AdamW's epsilon; torch's default",
        kPositive, "epsilon adam_eps adam_epsilon"},
    Key{"optimizer", "weight_decay", SETTING(optimizer.weight_decay), "0.1", "",
        "Decoupled weight decay; usual for language models", kFinite, "wd decay_rate"},
    Key{"optimizer", "decay_all", SETTING(optimizer.decay_all), "false", "",
        "Weight decay on norms and biases too; usually it is on matrices only"},
    Key{"optimizer", "clip", SETTING(optimizer.clip), "1.0", "",
        "Largest gradient norm, 0: no clipping; 1 is usual", kFinite,
        "grad_clip clip_grad max_grad_norm max_norm gradient_clipping gradient_clip_val clip_norm"},
    Key{"optimizer", "warmup_steps", SETTING(optimizer.warmup_steps), "0", "steps",
        "Step k uses lr * k / warmup_steps while k is below it; none unless asked for",
        from_zero_to(1e12), "warmup warmup_iters lr_warmup_iters lr_warmup_steps num_warmup_steps"},
    Key{"optimizer", "decay", SETTING(optimizer.decay, kDecays), "\"constant\"", "",
        "How lr falls after the warm-up; by default it does not", kAny,
        "lr_decay_style lr_schedule lr_scheduler lr_scheduler_type scheduler decay_type"},
    Key{"optimizer", "decay_steps", SETTING(optimizer.decay_steps), "", "steps",
        "Steps from the end of the warm-up to min_lr (wsd: the last ones of max_steps). Default: "
        "all after the warm-up (wsd: a tenth of max_steps; constant: 0)",
        from_zero_to(1e12), "lr_decay_iters lr_decay_steps"},
    Key{"optimizer", "min_lr", SETTING(optimizer.min_lr), "0.0", "",
        "Learning rate at the end of the decay; by default it decays to 0", kFinite,
        "lr_min final_lr end_lr min_learning_rate"},
    Key{"optimizer", "validation", SETTING(validation, kValidations), "\"auto\"", "",
        "When a stage updates its weights: at a barrier, once the norm of the whole gradient is "
        "known; or post, as soon as its own gradients are summed, after which it goes on with the "
        "forwards of the next step, and makes the update again where something was clipped; or "
        "auto, post under schedules whose stages end apart (zb-h2, zb-2p, zb-auto, zb-v, "
        "zb-v-static), if recovery keeps the state before an update anyway. The bits are the same",
        kAny, "post_validation enable_optimizer_post_validation optimizer_post_validation"},
    Key{"optimizer", "group", SETTING(model.groups), "[]", "",
        "Parameters that are trained otherwise, each a table [[optimizer.group]] with the keys "
        "below. The first table that matches a parameter decides; what none matches is trained as "
        "the keys above say",
        kAny, "param_groups parameter_groups groups"},
};

inline constexpr std::array kMixKeys{
    Key{"data.mix", "name", MEMBER(Source, name), "\"\"", "",
        "Name of the source in metrics; empty: the first of files, as it is given"},
    Key{"data.mix", "files", MEMBER(Source, files), "", "paths", "As data.files", kAny,
        "file path paths data data_files"},
    Key{"data.mix", "weight", MEMBER(Source, weight), "", "",
        "How often a sample is from this source, relative to the weights of the others", kPositive,
        "ratio proportion probability prob"},
    Key{"data.mix", "tokens", MEMBER(Source, tokens), "\"\"", "path",
        "Written by launch: the token file made of files. Replaced when given"},
    Key{"data.mix", "digest", MEMBER(Source, digest), "\"\"", "",
        "Written by launch: XXH64 of the token ids. Replaced when given"},
};

inline constexpr std::array kGroupKeys{
    Key{"optimizer.group", "match", MEMBER(stages::ParameterGroup, match), "", "",
        "A glob of names of parameters, as files and PyTorch have them: *, which stands for dots "
        "too, ? and [...]",
        kAny, "params parameters pattern patterns modules param_names"},
    Key{"optimizer.group", "lr_scale", MEMBER(stages::ParameterGroup, update.lr_scale), "1.0", "",
        "Times the learning rate of each step", kPositive,
        "lr learning_rate max_lr lr_mult lr_multiplier lr_factor"},
    Key{"optimizer.group", "weight_decay", MEMBER(stages::ParameterGroup, update.weight_decay),
        "optimizer.weight_decay", "",
        "Weight decay of all of them, norms and biases too if it is given here", kFinite,
        "wd decay"},
    Key{"optimizer.group", "frozen", MEMBER(stages::ParameterGroup, update.frozen), "false", "",
        "Never updated: they have no moments, and their gradients do not count in the norm", kAny,
        "freeze requires_grad trainable"},
};

}  // namespace troupe::launch

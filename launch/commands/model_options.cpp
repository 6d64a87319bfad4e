#include "launch/commands/model_options.h"

#include "launch/commands/subcommand.h"

namespace troupe::launch {
namespace {

constexpr const char* kCopyAsJson =
    "Print one JSON object: directory, files, unused_fields, left_out; no progress";

}  // namespace

void add_logits(CLI::App& app, LogitsOptions& o) {
  CLI::App* sub = command(
      app, "logits", "Write what a checkpoint's model computes for lists of token ids",
      "  troupe logits runs/first/checkpoints/step-1000 --ids ids.jsonl -o logits.safetensors\n"
      "The file has a tensor logits.I [tokens, vocabulary] in float32 for each line I, from 0; "
      "of a value\n"
      "head [tokens, 1].");
  sub->add_option("checkpoint", o.checkpoint, kCheckpoint)->required()->type_name("CHECKPOINT");
  sub->add_option("--ids", o.ids, "File with a JSON list of token ids in each line")
      ->required()
      ->type_name("FILE");
  sub->add_option("-o,--output", o.output, "safetensors file to write")
      ->required()
      ->type_name("FILE");
  add_device(sub, o.device, o.threads);
}

void add_import(CLI::App& app, ImportOptions& o) {
  CLI::App* sub = command(app, "import", "Make a checkpoint of a Hugging Face model",
                          "  troupe import Llama-3.2-1B checkpoints/llama\n"
                          "Weights keep every bit; config.json, tokenizer, generation settings and "
                          "chat template come along.\nOther commands take such a directory as it "
                          "is, too.");
  sub->add_option("model", o.model, "A directory with config.json and safetensors")
      ->required()
      ->type_name("MODEL");
  sub->add_option("output", o.output, "Directory of the checkpoint, which must not exist")
      ->required()
      ->type_name("DIR");
  sub->add_flag("--json", o.json, kCopyAsJson);
}

void add_export(CLI::App& app, ExportOptions& o) {
  CLI::App* sub = command(app, "export", "Make a Hugging Face model of a checkpoint",
                          "  troupe export runs/first/checkpoints/step-1000 my-model\n"
                          "  troupe export runs/first/checkpoints/step-1000 my-model --dtype "
                          "bfloat16");
  sub->add_option("checkpoint", o.checkpoint, kCheckpoint)->required()->type_name("CHECKPOINT");
  sub->add_option("output", o.output, "Directory of the model, which must not exist")
      ->required()
      ->type_name("DIR");
  sub->add_option("--dtype", o.dtype, "Type of the weights; default: as they are stored")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  sub->add_flag("--json", o.json, kCopyAsJson);
}

}  // namespace troupe::launch

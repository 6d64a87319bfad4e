#include <limits>

#include "launch/commands/number_between.h"
#include "launch/commands/subcommand.h"

namespace troupe::launch {

void add_generate(CLI::App& app, GenerateOptions& o) {
  CLI::App* sub = command(
      app, "generate", "Write text with a checkpoint's model",
      "  troupe generate runs/first/checkpoints/step-1000 --prompt 'Once upon'\n"
      "  troupe generate runs/first/checkpoints/step-1000 --prompt 'The ' --tokens 200 --seed 7 "
      "--temperature 0\n"
      "  troupe generate runs/first/checkpoints/step-1000 --prompt-file prompts.txt --top-p 0.9 "
      "--json\n"
      "A text ends after --tokens, after the model's end token, and before a --stop.");
  sub->add_option("checkpoint", o.checkpoint, kCheckpoint)->required()->type_name("CHECKPOINT");
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
  sub->add_option("--tokens", o.tokens, "Tokens to write")
      ->check(number_between(1, 1'000'000))
      ->capture_default_str();
  sub->add_option("--seed", o.seed, "The same seed gives the same text")
      ->check(number_between(std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  sub->add_option(
         "--temperature", o.temperature,
         "Below 1 likely tokens are favoured, above 1 unlikely ones; 0 always takes the likeliest")
      ->check(number_between(0.0, 100.0))
      ->capture_default_str();
  sub->add_option("--top-k", o.top_k, "Draw among the k likeliest tokens; 0: among all")
      ->check(number_between(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
  sub->add_option("--top-p", o.top_p,
                  "Draw among the likeliest tokens that together have this probability")
      ->check(number_between(0.0, 1.0))
      ->capture_default_str();
  sub->add_option("--stop", o.stops, "End before this text; may be given several times")
      ->type_name("TEXT")
      ->check([](const std::string& text) {
        return text.empty() ? std::string("an empty text would end everything") : std::string();
      })
      ->expected(1)
      ->take_all();
  sub->add_flag("--json", o.json, "Print one JSON object, with ids and tokens per second");
  sub->add_option("--tp", o.tp, "Shards of each layer, as threads of this process")
      ->check(number_between(1, 1024))
      ->capture_default_str();
  sub->add_option("--pp", o.pp, "Stages of the layers, one after the other in this process")
      ->check(number_between(1, 1024))
      ->capture_default_str();
  add_device(sub, o.device, o.threads);
}

}  // namespace troupe::launch

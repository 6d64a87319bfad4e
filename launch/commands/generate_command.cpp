#include "launch/commands/commands.h"
#include "launch/commands/inference.h"
#include "launch/host/console.h"
#include "stages/checkpoint.h"
#include "stages/generator.h"
#include "stages/token_data.h"
#include "tensor/error.h"

namespace troupe::launch {

int run(const GenerateOptions& options) {
  const auto checkpoint = stages::CheckpointReader::open(options.checkpoint);
  const auto& info = checkpoint->info();
  const auto tokenizer = stages::Tokenizer::open(checkpoint->tokenizer());
  std::vector<std::int32_t> ids = tokenizer->encode(options.prompt);
  if (ids.empty()) throw Error(ErrorKind::usage, "--prompt: the text must hold at least one token");

  const auto device = device_for(options.device, options.threads);
  stages::Generator generator(info.model, *device, info.seq_len);
  checkpoint->load(generator.stage(), true);
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const auto logits = generator.next_logits(ids);
    // A model may have more rows than its tokenizer has tokens; the logits of the other rows are
    // left out.
    const auto known =
        logits.first(std::min(logits.size(), static_cast<std::size_t>(tokenizer->vocab_size())));
    ids.push_back(
        stages::sample(known, options.temperature, options.seed, static_cast<std::uint64_t>(i)));
  }
  print(stages::valid_utf8(tokenizer->decode(ids)) + "\n");
  return 0;
}

}  // namespace troupe::launch

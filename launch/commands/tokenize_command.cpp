#include <fmt/format.h>

#include "launch/commands/commands.h"
#include "launch/host/console.h"
#include "launch/host/quantities.h"
#include "launch/manifest/tokenizing.h"
#include "schedules/counted.h"
#include "stages/token_data.h"

namespace troupe::launch {

int run(const TokenizeOptions& options) {
  const auto files = stages::expand_files(options.files);
  SignalWatch signals("");
  Tokenizing tokenizing(signals);
  const auto index =
      stages::write_indexed_dataset(files, options.tokenizer, options.output, tokenizing.options());
  print(fmt::format("{} {} of {} in {}.bin and .idx\n", grouped(index.num_tokens),
                    index.num_tokens == 1 ? "token" : "tokens",
                    schedules::counted(index.num_documents, "document"), options.output));
  return 0;
}

}  // namespace troupe::launch

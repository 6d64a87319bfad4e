#include <fmt/format.h>

#include "launch/commands.h"
#include "launch/console.h"
#include "launch/placement.h"
#include "stages/token_data.h"

namespace troupe::launch {

int run(const TokenizeOptions& options) {
  const auto files = stages::expand_files(options.files);
  const auto index = stages::write_indexed_dataset(files, options.tokenizer, options.output);
  print(fmt::format("{} tokens of {} documents in {}.bin and .idx\n", grouped(index.num_tokens),
                    index.num_documents, options.output));
  return 0;
}

}  // namespace troupe::launch

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launch/commands/options.h"
#include "launch/host/console.h"
#include "launch/host/quantities.h"
#include "launch/manifest/resolve/tokenizing.h"
#include "launch/run/result_file.h"
#include "schedules/plan/counted.h"
#include "stages/corpus/token_data.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

std::int32_t id_to_append(const TokenizeOptions& options, const stages::Tokenizer& tokenizer) {
  const auto id = tokenizer.id_of(*options.append);
  if (!id)
    refuse(fmt::format("--append: {} has no token \"{}\"", options.tokenizer, *options.append));
  return *id;
}

}  // namespace

int run(const TokenizeOptions& options) {
  const auto files = stages::expand_files(options.files);
  const auto tokenizer = stages::Tokenizer::open(options.tokenizer);
  SignalWatch signals("");
  Tokenizing tokenizing(signals, options.json ? Tokenizing::Quiet::yes : Tokenizing::Quiet::no);
  stages::EncodeOptions encode = tokenizing.options();
  if (options.add_special_tokens) encode.frame = tokenizer->frame();
  if (options.append) encode.append.push_back(id_to_append(options, *tokenizer));
  const auto index = writing_output(
      [&] { return stages::write_indexed_dataset(files, *tokenizer, options.output, encode); });
  if (options.json) {
    print(nlohmann::json{{"prefix", options.output},
                         {"tokens", index.num_tokens},
                         {"documents", index.num_documents},
                         {"sequences", index.num_sequences},
                         {"bytes_per_token", stages::bytes_of(index.width)}}
              .dump() +
          "\n");
    return 0;
  }
  print(fmt::format("{} {} of {} in {}.bin and .idx\n", grouped(index.num_tokens),
                    index.num_tokens == 1 ? "token" : "tokens",
                    schedules::counted(index.num_documents, "document"), options.output));
  return 0;
}

}  // namespace troupe::launch

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launch/commands/options.h"
#include "launch/host/console.h"
#include "launch/host/quantities.h"
#include "launch/host/suggest.h"
#include "launch/manifest/resolve/tokenizing.h"
#include "launch/run/result_file.h"
#include "schedules/plan/counted.h"
#include "stages/corpus/chat/chat_date.h"
#include "stages/corpus/text/record.h"
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

/// How the options say that records are read.
stages::TextRules rules_of(const TokenizeOptions& options) {
  constexpr auto& kPolicies = stages::kBadLinesNames;
  constexpr auto& kKnown = stages::kRecordFields;
  stages::TextRules rules{
      .on_bad_line =
          stages::BadLines(std::ranges::find(kPolicies, options.on_bad_line) - kPolicies.begin()),
      .date = options.date,
      .bos = options.bos,
      .end_of_document = options.end_of_document};
  if (options.add_special_tokens) rules.bos = rules.end_of_document = stages::kAutoMark;
  for (const std::string& field : options.fields) {
    const std::size_t equals = field.find('=');
    const std::string name = field.substr(0, equals);
    if (equals == field.npos || std::ranges::find(kKnown, name) == kKnown.end())
      refuse(fmt::format("--fields {}: expected NAME=THEIRS, where NAME is one of {}", field,
                         quoted_list(kKnown)));
    rules.fields[name] = field.substr(equals + 1);
  }
  if (!options.date.empty()) stages::begin_of_day(options.date);
  return rules;
}

}  // namespace

int run(const TokenizeOptions& options) {
  const auto files = stages::expand_files(options.files);
  const auto tokenizer = stages::Tokenizer::open(options.tokenizer);
  SignalWatch signals("");
  Tokenizing tokenizing(signals, options.json ? Tokenizing::Quiet::yes : Tokenizing::Quiet::no);
  stages::EncodeOptions encode = tokenizing.options();
  const stages::TextRules rules = rules_of(options);
  encode.marks = stages::marks_of(*tokenizer, rules, stages::Documents::packed);
  if (options.append) encode.append.push_back(id_to_append(options, *tokenizer));
  const auto index = writing_output([&] {
    return stages::write_indexed_dataset(files, *tokenizer, options.output, encode, rules);
  });
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

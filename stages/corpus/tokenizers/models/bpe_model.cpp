#include "stages/corpus/tokenizers/models/bpe_model.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

namespace troupe::stages {
namespace {

/// The merges, in either spelling: "a b" or ["a", "b"].
class MergeReader {
 public:
  MergeReader(const JsonPart& part, const Vocabulary& vocabulary)
      : part_(part), vocabulary_(vocabulary) {}

  std::vector<BpeModel::Merge> read() {
    if (!part_.value().is_array()) part_.fail("must be a list");
    std::vector<BpeModel::Merge> merges;
    for (const auto& merge : part_.value()) {
      if (merge.is_string())
        read_line(merge.get_ref<const std::string&>(), merges);
      else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string())
        merges.push_back(merge_of(merge[0].get<std::string>(), merge[1].get<std::string>()));
      else
        fail_at_merge("must be \"LEFT RIGHT\" or [\"LEFT\", \"RIGHT\"]");
      ++number_;
    }
    return merges;
  }

 private:
  void read_line(const std::string& line, std::vector<BpeModel::Merge>& merges) const {
    if (line.starts_with("#version")) return;  // the first line of a merges.txt
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
      fail_at_merge(fmt::format("\"{}\" is not two tokens with a space between them", line));
    merges.push_back(merge_of(line.substr(0, space), line.substr(space + 1)));
  }

  BpeModel::Merge merge_of(const std::string& left, const std::string& right) const {
    return {.left = id_of(left), .right = id_of(right), .result = id_of(left + right)};
  }

  std::int32_t id_of(const std::string& token) const {
    if (token.empty()) fail_at_merge("one of the two tokens is empty");
    const auto found = vocabulary_.find(token);
    if (found == vocabulary_.end())
      fail_at_merge(fmt::format("the token \"{}\" is not in the vocabulary", token));
    return found->second;
  }

  [[noreturn]] void fail_at_merge(const std::string& why) const {
    part_.fail(fmt::format("merge {}: {}", number_, why));
  }

  const JsonPart& part_;
  const Vocabulary& vocabulary_;
  std::int64_t number_ = 0;
};

/// Refuses what changes ids and is not done here.
void check_unused(const JsonPart& part) {
  if (const auto dropout = part.find("dropout"); dropout && dropout->value() != 0)
    dropout->fail("dropout makes ids random, which is not supported");
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const std::string text = part.text(name, ""); !text.empty())
      part.at(name).fail(fmt::format("\"{}\" is not supported, only none", text));
}

}  // namespace

BpeModel read_bpe_model(const JsonPart& part) {
  check_unused(part);
  BpeModel model{.vocabulary = read_vocabulary(part.at("vocab")),
                 .fuse_unknown = part.flag("fuse_unk", false),
                 .byte_fallback = part.flag("byte_fallback", false),
                 .ignore_merges = part.flag("ignore_merges", false)};
  model.merges = MergeReader(part.at("merges"), model.vocabulary).read();
  model.unknown = read_token(part, "unk_token", model.vocabulary);
  return model;
}

}  // namespace troupe::stages

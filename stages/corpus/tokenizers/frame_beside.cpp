#include "stages/corpus/tokenizers/frame_beside.h"

#include <fmt/format.h>

#include "tensor/errors/error.h"

namespace troupe::stages {

Tokenizer::Frame frame_beside(
    const TokenizerConfig& config,
    const std::function<std::optional<std::int32_t>(std::string_view token)>& id_of,
    const std::string& path) {
  Tokenizer::Frame frame;
  const auto add = [&](const char* flag, const char* token, const char* otherwise,
                       std::vector<std::int32_t>& side) {
    if (!config.is_set(flag)) return;
    const auto given = config.has_token(token) ? config.token(token) : otherwise;
    if (!given) return;
    const auto id = id_of(*given);
    if (!id)
      throw Error(ErrorKind::data, fmt::format("{}: {} \"{}\" is no token of {}",
                                               config.path().string(), token, *given, path));
    side.push_back(*id);
  };
  add("add_bos_token", "bos_token", "<s>", frame.before);
  add("add_eos_token", "eos_token", "</s>", frame.after);
  return frame;
}

}  // namespace troupe::stages

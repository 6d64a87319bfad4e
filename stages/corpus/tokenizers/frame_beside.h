#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "stages/corpus/tokenizers/tokenizer.h"
#include "stages/corpus/tokenizers/tokenizer_config.h"

namespace troupe::stages {

/// The special tokens around a text that "add_bos_token" and "add_eos_token" of the files beside a
/// tokenizer ask for; its own file says nothing about them. Throws Error{data} for one that
/// `id_of` does not find in the tokenizer, which is `path`.
Tokenizer::Frame frame_beside(
    const TokenizerConfig& config,
    const std::function<std::optional<std::int32_t>(std::string_view token)>& id_of,
    const std::string& path);

}  // namespace troupe::stages

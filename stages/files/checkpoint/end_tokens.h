#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace troupe::stages {

/// The tokens after which a model's texts end: eos_token_id, a number or a list of them, of
/// generation_config.json in this folder, or if that has none of config.json; empty if neither has.
/// An adapter's folder is followed by that of its base.
/// Throws Error{data} naming file and field.
std::vector<std::int32_t> end_tokens(const std::filesystem::path& dir);

}  // namespace troupe::stages

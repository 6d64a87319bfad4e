#pragma once

#include <cstdint>
#include <string_view>

namespace troupe::tensor {

/// The part of each shard when `count` of `what` ("outputs of a column-parallel layer") are divided
/// evenly. Throws Error{manifest} with the nearest valid counts if `shards` does not divide it.
std::int64_t even_part(std::string_view what, std::int64_t count, int shards);

}  // namespace troupe::tensor

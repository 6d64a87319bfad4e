#pragma once

#include <span>
#include <string>
#include <string_view>

#include "launch/manifest/keys/key.h"
#include "launch/manifest/keys/other_names.h"

// Finds what tables, keys and values are called in other trainers. Names are compared without
// regard to case, '-' and '_'.

namespace troupe::launch {

/// What is called `name`; empty if nothing is.
std::string_view find_synonym(std::span<const Synonyms> table, std::string_view name);
/// The key that is called so elsewhere, in whatever table or, if its table stands before it, in
/// that one; null if none is.
const Key* find_key_called(std::span<const Key> keys, std::string_view name);
/// "learning_rate is optimizer.lr here", or what is here instead of such a key; empty if nothing is
/// called so.
std::string key_synonym(std::string_view table, std::string_view name);
/// What is known of a key that is named without its table: "did you mean run.max_steps?", or as
/// key_synonym(); empty if nothing is.
std::string key_without_table(std::string_view name);
/// "zero3 is sharding = 'optim_grads_params' here", where the value of a key of texts is such a
/// name; else, and for a value itself, empty.
std::string value_synonym(std::string_view table, std::string_view key, std::string_view value);

}  // namespace troupe::launch

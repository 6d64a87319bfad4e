#pragma once

#include <span>
#include <string>
#include <string_view>

#include "launch/manifest/keys/key.h"

// What tables, keys and values are called in other trainers, for messages about unknown ones. Names
// are compared without regard to case, '-' and '_'.

namespace troupe::launch {

/// Names of something, separated by spaces, and what is here instead.
struct Synonyms {
  std::string_view names;
  std::string_view here;  ///< a table, a key with its table, or a value
};

/// Names of tables.
std::span<const Synonyms> table_synonyms();
/// Names of keys, in whatever table they stand, or in the one that is named with them.
std::span<const Synonyms> key_synonyms();
/// Keys that have another name in manifests of earlier versions, each with its table.
std::span<const Synonyms> renamed_keys();
/// Keys of Megatron-LM, each with its table, that the manifest does not have, and what is there
/// instead.
std::span<const Synonyms> megatron_keys();
/// Names of keys of which there is none here, with a sentence about what does the same.
std::span<const Synonyms> names_without_key();
/// Names of the keys of a list of tables, as "optimizer.group"; empty if there are none.
std::span<const Synonyms> row_key_synonyms(std::string_view list);
/// Names of the values of a key, as "data_parallel.sharding"; empty if there are none.
std::span<const Synonyms> value_synonyms(std::string_view key);

/// What is called `name`; empty if nothing is.
std::string_view find_synonym(std::span<const Synonyms> table, std::string_view name);
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

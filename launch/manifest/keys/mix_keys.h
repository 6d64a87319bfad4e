#pragma once

#include "launch/manifest/keys/key_rules.h"

// The keys of [[data.mix]], as defaults.h describes them.

namespace troupe::launch {

inline constexpr std::array kMixKeys{
    Key{"data.mix", "name", Kind::text, "\"\"", "",
        "Name of the source in metrics; empty: the first of files, as it is given"},
    Key{"data.mix", "files", Kind::texts, "", "paths", "As data.files"},
    Key{"data.mix", "weight", Kind::number, "", "",
        "How often a sample is from this source, relative to the weights of the others", kPositive},
    Key{"data.mix", "tokens", Kind::text, "\"\"", "path",
        "Written by launch: the token file made of files. Replaced when given"},
    Key{"data.mix", "digest", Kind::text, "\"\"", "",
        "Written by launch: XXH64 of the token ids. Replaced when given"},
};

}  // namespace troupe::launch

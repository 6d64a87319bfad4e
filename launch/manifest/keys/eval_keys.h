#pragma once

#include "launch/manifest/keys/key_rules.h"

// The keys of [eval], a part of manifest_keys(), and those of [[eval.set]]. Only defaults.cpp
// includes this.

namespace troupe::launch {

inline constexpr std::array kEvalKeys{
    Key{"eval", "interval", Kind::integer, "0", "steps",
        "Steps between evaluations, 0: never; needs eval.files or eval.set",
        Rule{.min = 0, .max = 1e12}},
    Key{"eval", "files", Kind::texts, "[]", "paths", "Text to evaluate on, as data.files"},
    Key{"eval", "set", Kind::sets, "[]", "",
        "Several texts instead of files, each a table [[eval.set]] with the keys below; each has "
        "a loss of its own, and that of the first is the run's"},
    Key{"eval", "steps", Kind::integer, "4", "global batches",
        "The most of a set in an evaluation, which reads each sample once at most",
        Rule{.min = 1, .max = 1e9}},
    Key{"eval", "keep_gradients", Kind::boolean, "true", "",
        "Whether workers keep the memory of their gradients during an evaluation; off, they give "
        "it back to the machine until the next step, which takes a moment to have it again. On, as "
        "nobody else needs it"},
    Key{"eval", "tokens", Kind::text, "", "path",
        "Written by launch: the token file made of eval.files. Replaced when given"},
    Key{"eval", "digest", Kind::text, "", "",
        "Written by launch: XXH64 of the token ids. Replaced when given"},
    Key{"eval", "samples", Kind::integer, "", "samples",
        "Written by launch: what eval.tokens makes. Replaced when given",
        Rule{.min = 0, .max = 1e15}},
};

inline constexpr std::array kSetKeys{
    Key{"eval.set", "name", Kind::text, "\"\"", "",
        "Name of the set in metrics; empty: the first of files, as it is given"},
    Key{"eval.set", "files", Kind::texts, "", "paths", "As data.files"},
    Key{"eval.set", "tokens", Kind::text, "\"\"", "path",
        "Written by launch: the token file made of files. Replaced when given"},
    Key{"eval.set", "digest", Kind::text, "\"\"", "",
        "Written by launch: XXH64 of the token ids. Replaced when given"},
    Key{"eval.set", "samples", Kind::integer, "0", "samples",
        "Written by launch: what tokens makes. Replaced when given", Rule{.min = 0, .max = 1e15}},
};

}  // namespace troupe::launch

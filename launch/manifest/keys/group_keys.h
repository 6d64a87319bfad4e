#pragma once

#include "launch/manifest/keys/key_rules.h"

// The keys of [[optimizer.group]], as defaults.h describes them.

namespace troupe::launch {

inline constexpr std::array kGroupKeys{
    Key{"optimizer.group", "match", Kind::text, "", "",
        "A glob of names of parameters, as files and PyTorch have them: *, which stands for dots "
        "too, ? and [...]"},
    Key{"optimizer.group", "lr_scale", Kind::number, "1.0", "",
        "Times the learning rate of each step", kPositive},
    Key{"optimizer.group", "weight_decay", Kind::number, "optimizer.weight_decay", "",
        "Weight decay of all of them, norms and biases too if it is given here", kFinite},
    Key{"optimizer.group", "frozen", Kind::boolean, "false", "",
        "Never updated: they have no moments, and their gradients do not count in the norm"},
};

}  // namespace troupe::launch

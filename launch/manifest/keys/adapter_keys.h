#pragma once

#include <array>

#include "launch/manifest/keys/key.h"

// The keys of [adapter]. Only keys.cpp includes this.

namespace troupe::launch {

inline constexpr std::array kAdapterKeys{
    Key{"adapter", "rank", SETTING(adapter.rank), "8", "",
        "Rows of A and columns of B in W x + s B A x, which is LoRA. The matrices W of model.from "
        "are frozen then, and A and B of each target trained. 8, as in PEFT; a table [adapter] is "
        "written only of keys that have not their default",
        from_one_to(65536), "r lora_r lora_rank adapter_rank lora_dim", true},
    Key{"adapter", "alpha", SETTING(adapter.alpha), "8.0", "",
        "s is alpha / rank; the default is PEFT's", kPositive, "lora_alpha", true},
    Key{"adapter", "dropout", SETTING(adapter.dropout), "0.0", "",
        "Probability with which training drops the elements of what A reads", kFraction,
        "lora_dropout adapter_dropout", true},
    Key{"adapter", "targets", SETTING(adapter.targets), "[]", "",
        "The modules that get A and B, by the last parts of their names, as [\"q_proj\", "
        "\"v_proj\"], or \"all-linear\" for all in the layers. A tensor that holds several "
        "matrices, as qkv_proj, is one target",
        kAny, "target_modules lora_target_modules lora_target lora_modules", true},
    Key{"adapter", "rslora", SETTING(adapter.rslora), "false", "",
        "Whether s is alpha / sqrt(rank) (arXiv 2312.03732)", kAny, "use_rslora", true},
    Key{"adapter", "from", SETTING(adapter_from), "\"\"", "path",
        "A directory of PEFT, or a checkpoint of such a run: A and B to begin with, and the keys "
        "above. Its base is model.from. Empty: A is drawn, and B is 0",
        kAny, "adapter_name_or_path peft_model lora_path adapter_path", true},
};

}  // namespace troupe::launch

#pragma once

#include <array>

#include "launch/manifest/keys/defaults.h"

// The keys of [checkpoint], a part of manifest_keys(). Only defaults.cpp includes this.

namespace troupe::launch {

inline constexpr std::array kCheckpointKeys{
    Key{"checkpoint", "interval", Kind::integer, "100", "steps",
        "Steps between checkpoints, 0: only at the end; little is lost if a run dies",
        Rule{.min = 0, .max = 1e12}},
    Key{"checkpoint", "keep", Kind::integer, "3", "checkpoints",
        "Number of newest checkpoints that are kept; an older one is intact even if the newest is "
        "damaged",
        Rule{.min = 1, .max = 1e6}},
    Key{"checkpoint", "keep_best", Kind::integer, "0", "checkpoints",
        "Number of checkpoints that are kept beside these because an evaluation at their step had "
        "the lowest losses, on the first set if there are several; the file checkpoints/best names "
        "them, the best first",
        Rule{.min = 0, .max = 1e6}},
    Key{"checkpoint", "initial", Kind::boolean, "false", "",
        "Save step 0 too; only replays need it"},
    Key{"checkpoint", "resume", Kind::text, "\"\"", "path",
        "Checkpoint to start from, of any run and layout; none: fresh weights"},
    Key{"checkpoint", "weights_only", Kind::boolean, "false", "",
        "Take only the weights of resume and start at step 0 with a fresh optimizer; by default "
        "optimizer and step continue"},
    Key{"checkpoint", "other_data", Kind::boolean, "false", "",
        "Go on although corpus, seq_len or order of samples are not the checkpoint's: the next "
        "sample is the one with its number in the new order. By default such a resume is refused"},
    Key{"checkpoint", "on_save", Kind::text, "\"\"", "command",
        "Shell command to run beside the training for each checkpoint that is complete, one at a "
        "time, with TROUPE_CHECKPOINT, TROUPE_STEP and TROUPE_RUN in its environment; whatever "
        "becomes of it, the run goes on. Empty: none"},
    Key{"checkpoint", "on_save_timeout", Kind::number, "30.0", "seconds",
        "A command of on_save that takes longer is ended, and a run that has ended waits no longer "
        "for those of its last checkpoints. Enough to order a copy; give more to make one",
        Rule{.min = 1, .max = 86400}},
};

}  // namespace troupe::launch

#pragma once

#include "launch/manifest/keys/key_rules.h"

// The keys of [monitor], as defaults.h describes them.

namespace troupe::launch {

inline constexpr std::array kMonitorKeys{
    Key{"monitor", "log_interval", Kind::integer, "1", "steps",
        "Steps between console lines; every step", Rule{.min = 1, .max = 1e9}},
    Key{"monitor", "peak_tflops", Kind::number, "0.0", "TFLOP/s",
        "What the device of a rank can do at most, for mfu; 0: what the table of GPUs says, "
        "and unknown for a CPU",
        Rule{.min = 0, .max = 1e9}},
    Key{"monitor", "timestamps", Kind::boolean, "false", "",
        "Begin each line of the console with the local time; off, as most consoles are watched"},
    Key{"monitor", "tensorboard", Kind::boolean, "false", "",
        "Write event files for TensorBoard into tensorboard/ of the run directory"},
    Key{"monitor", "histograms", Kind::integer, "0", "steps",
        "Steps between histograms of every weight and every gradient in TensorBoard, 0: none; "
        "needs tensorboard. None, as each reads all weights and gradients once more",
        Rule{.min = 0, .max = 1e12}},
    Key{"monitor", "prometheus", Kind::text, "\"\"", "host:port",
        "Where to answer a Prometheus server, as 127.0.0.1:9090; port 0: any free one, shown by "
        "status --json; empty: nowhere. Every client that reaches it may read"},
    Key{"monitor", "web", Kind::text, "\"\"", "host:port",
        "Where to show the run to a browser, as 127.0.0.1:8080; port 0: any free one, shown by "
        "status --json; empty: nowhere. Every client that reaches it may read"},
    Key{"monitor", "hosts", Kind::texts, "[]", "names",
        "Names and addresses by which browsers may ask for the page, beside localhost and the "
        "address of web; empty: all of the machine's own. Requests by other names, which pages of "
        "other sites could make, are refused"},
};

}  // namespace troupe::launch

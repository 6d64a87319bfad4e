#pragma once

#include <array>
#include <string_view>

#include "launch/manifest/keys/key.h"

// The keys of [checkpoint], [eval] with its list of sets, [cluster], [recovery] and [monitor]. Only
// keys.cpp includes this.

namespace troupe::launch {

inline constexpr std::array<std::string_view, 2> kDevices{"cpu", "cuda"};
inline constexpr std::array<std::string_view, 6> kEngines{"auto",  "local", "ssh",
                                                          "slurm", "mpi",   "join"};
inline constexpr std::array<std::string_view, 2> kMatmuls{"float32", "tf32"};
inline constexpr std::array<std::string_view, 2> kCollectives{"ordered", "nccl"};
inline constexpr std::array<std::string_view, 3> kEdges{"auto", "peer", "staged"};
inline constexpr std::array<std::string_view, 3> kOnFailure{"replace", "shrink", "stop"};

inline constexpr std::array kOperationKeys{
    Key{"checkpoint", "interval", SETTING(checkpoint.interval), "100", "steps",
        "Steps between checkpoints, 0: only at the end; little is lost if a run dies",
        from_zero_to(1e12),
        "save_interval save_steps save_every save_freq checkpoint_interval ckpt_interval "
        "checkpoint_every checkpoint.every checkpoint.freq"},
    Key{"checkpoint", "keep", SETTING(checkpoint.keep), "3", "checkpoints",
        "Number of newest checkpoints that are kept; an older one is intact even if the newest is "
        "damaged",
        from_one_to(1e6), "save_total_limit max_checkpoints keep_last keep_latest_k"},
    Key{"checkpoint", "keep_best", SETTING(checkpoint.keep_best), "0", "checkpoints",
        "Number of checkpoints that are kept beside these because an evaluation at their step had "
        "the lowest losses, on the first set if there are several; the file checkpoints/best names "
        "them, the best first",
        from_zero_to(1e6), "save_top_k load_best_model_at_end save_best keep_best_k"},
    Key{"checkpoint", "initial", SETTING(checkpoint.initial), "false", "",
        "Save step 0 too; only replays need it"},
    Key{"checkpoint", "resume", SETTING(checkpoint.resume), "\"\"", "path",
        "Checkpoint to start from, of any run and layout; none: fresh weights", kAny,
        "load resume_from resume_from_checkpoint load_checkpoint"},
    Key{"checkpoint", "weights_only", SETTING(checkpoint.weights_only), "false", "",
        "Take only the weights of resume and start at step 0 with a fresh optimizer; by default "
        "optimizer and step continue"},
    Key{"checkpoint", "other_data", SETTING(other_data), "false", "",
        "Go on although corpus, seq_len or order of samples are not the checkpoint's: the next "
        "sample is the one with its number in the new order. By default such a resume is refused"},
    Key{"checkpoint", "gather", SETTING(gather), "false", "",
        "Whether a host may take part that does not see the run's directory: its ranks write into "
        "a "
        "folder of its own, and their parts of each checkpoint then come over the network into the "
        "run's directory, beside the steps. Off, because a directory that is meant to be shared "
        "and "
        "is not would go unnoticed"},
    Key{"checkpoint", "on_save", SETTING(on_save), "\"\"", "command",
        "Shell command to run beside the training for each checkpoint that is complete, one at a "
        "time, with TROUPE_CHECKPOINT, TROUPE_STEP and TROUPE_RUN in its environment; whatever "
        "becomes of it, the run goes on. Empty: none"},
    Key{"checkpoint", "on_save_timeout", SETTING(on_save_timeout), "30.0", "seconds",
        "A command of on_save that takes longer is ended, and a run that has ended waits no longer "
        "for those of its last checkpoints. Enough to order a copy; give more to make one",
        from_one_to(86400)},

    Key{"eval", "interval", SETTING(eval.interval), "0", "steps",
        "Steps between evaluations, 0: never; needs eval.files or eval.set", from_zero_to(1e12),
        "eval_interval eval_every eval_freq eval.every eval.freq val_check_interval "
        "evaluation_interval"},
    Key{"eval", "files", SETTING(eval_text.files), "[]", "paths",
        "Text to evaluate on, as data.files", kAny,
        "eval_data eval_file eval_files val_data val_file valid_data validation_files"},
    Key{"eval", "set", SETTING(eval.sets), "[]", "",
        "Several texts instead of files, each a table [[eval.set]] with the keys below; each has a "
        "loss of its own, and that of the first is the run's",
        kAny, "eval_sets eval_datasets val_sets validation_sets sets"},
    Key{"eval", "steps", SETTING(eval.steps), "4", "global batches",
        "The most of a set in an evaluation, which reads each sample once at most",
        from_one_to(1e9), "eval_iters num_eval_steps max_eval_steps eval_batches"},
    Key{"eval", "keep_gradients", SETTING(eval.keeps_gradients), "true", "",
        "Whether workers keep the memory of their gradients during an evaluation; off, they give "
        "it back to the machine until the next step, which takes a moment to have it again. On, as "
        "nobody else needs it"},
    Key{"eval", "tokens", SETTING(eval_text.tokens), "", "path",
        "Written by launch: the token file made of eval.files. Replaced when given"},
    Key{"eval", "digest", SETTING(eval_text.digest), "", "",
        "Written by launch: XXH64 of the token ids. Replaced when given"},
    Key{"eval", "samples", SETTING(eval_text.samples), "", "samples",
        "Written by launch: what eval.tokens makes. Replaced when given", from_zero_to(1e15)},

    Key{"cluster", "device", SETTING(cluster.device.kind, kDevices), "\"cpu\"", "",
        "What a rank computes with: cpu, its cores; or cuda, an NVIDIA GPU, one of those that "
        "CUDA_VISIBLE_DEVICES names. The CPU, as every machine has one",
        kAny, "accelerator backend device_type"},
    Key{"cluster", "gpus", SETTING(cluster.gpus), "[]", "",
        "The GPUs of each machine that its ranks take by turns, by their numbers or UUIDs, also "
        "those of MIG instances: [0, 2] or [\"GPU-8f0c\"]. Empty: all, along their peers",
        from_zero_to(1023), "gpu_ids device_ids devices visible_devices"},
    Key{"cluster", "matmul", SETTING(cluster.device.tf32, kMatmuls), "\"float32\"", "",
        "What a GPU multiplies float32 with: float32, or tf32, several times as fast, which rounds "
        "factors to 11 bits. float32, as exactness comes before speed"},
    Key{"cluster", "deterministic", SETTING(cluster.device.deterministic), "true", "",
        "Whether a GPU gives the same bits each time. false lets it add gradients in any order and "
        "choose products by a clock, which takes less time and memory; on, so that runs repeat"},
    Key{"cluster", "collectives", SETTING(cluster.collectives, kCollectives), "\"ordered\"", "",
        "In which order GPUs add what they exchange: ordered, ascending by rank, with the bits of "
        "CPUs; or nccl, as NCCL likes, which is faster. ordered, so that runs repeat"},
    Key{"cluster", "edges", SETTING(cluster.edges, kEdges), "\"auto\"", "",
        "How activations get from GPU to GPU: peer, written into the other one's memory; staged, "
        "copied through host memory; or auto, peer where the GPUs of a host reach each other, as "
        "that takes no copies, and staged elsewhere"},
    Key{"cluster", "threads", SETTING(cluster.device.threads), "1", "threads",
        "Compute threads of a rank. The last bits of a loss depend on it, so it does not follow "
        "the machine",
        from_one_to(1024), "num_threads n_threads omp_num_threads cpu_threads"},
    Key{"cluster", "pin", SETTING(cluster.pin), "", "",
        "Bind ranks to cores of their own; default: unless ranks * threads exceed the free cores, "
        "or a control group has a quota of time"},
    Key{"cluster", "spin", SETTING(cluster.spin), "", "",
        "Wait for messages by polling; default: if ranks * (threads + 1) fit the free cores, "
        "without a quota of time"},
    Key{"cluster", "port", SETTING(cluster.port), "0", "port",
        "Loopback port of status and stop, 0: any free one", from_zero_to(65535)},
    Key{"cluster", "hosts", SETTING(hosts), "[]", "hosts",
        "The machines of the run, each with as many slots as it may have ranks: [\"n[01-16]:8\", "
        "\"big:32\"]; without a number one. Empty: this machine alone",
        kAny, "hostfile nodes node_list machines"},
    Key{"cluster", "interface", SETTING(cluster.interface), "\"\"", "",
        "Network interface of the messages between hosts, by a name that it has on each of them; "
        "none: on each host that of its route to the director's. On one machine messages stay on "
        "loopback",
        kAny, "ifname socket_ifname network_interface nic"},
    Key{"cluster", "ports", SETTING(cluster.ports), "\"\"", "",
        "TCP ports that ranks, agents and the launcher listen on, as \"29600-29700\", for a "
        "firewall between hosts: two for each rank of a host, as a rank that recovers opens one "
        "before it closes the other, and two more; none: any free ones",
        kAny, "port_range"},

    Key{"cluster", "engine", SETTING(engine.kind, kEngines), "\"auto\"", "",
        "How agents come to other hosts: ssh starts them; slurm has srun start them in an "
        "allocation; mpi: each process of mpirun, srun or torchrun is one; join: they come by "
        "themselves. auto: ssh where hosts are named, else what the job's environment says, else "
        "this host alone, which is local"},
    Key{"cluster", "ssh", SETTING(engine.ssh), "\"ssh\"", "command",
        "What starts a program on another host, with its options, as 'ssh -p 2222'; the host's "
        "name and the program follow"},
    Key{"cluster", "program", SETTING(engine.program), "\"\"", "path",
        "This program on other hosts; empty: the path that it has here"},
    Key{"cluster", "wait", SETTING(engine.wait_s), "300.0", "seconds",
        "How long the hosts have to join, all of them; then the launch ends and names the missing",
        from_one_to(86400)},
    Key{"cluster", "min_hosts", SETTING(engine.min_hosts), "0", "hosts",
        "Begin with so many hosts if the others have not joined within cluster.wait, or have all "
        "failed to; 0: never with fewer than are named, as nobody asked for a smaller run",
        from_zero_to(1e6)},
    Key{"cluster", "forward_env", SETTING(engine.forward), "[]", "names",
        "Environment variables that workers on other hosts are given as they are here. None: "
        "what a machine has set for itself stays"},
    Key{"cluster", "mixed_cpus", SETTING(engine.mixed_cpus), "false", "",
        "Accept hosts whose processors have other instructions, by which products and so losses "
        "may differ in their last bits; off, so that runs repeat"},
    Key{"cluster", "trusted_network", SETTING(engine.trusted_network), "false", "",
        "Accept hosts whose addresses are not private: messages between ranks travel in plain "
        "text, so that who can send packets on that network may read and change them"},
    Key{"cluster", "director_wait", SETTING(engine.director_wait_s), "120.0", "seconds",
        "How long hosts keep their workers, with all state, once the launcher is lost, for another "
        "one that launch --resume starts on any host; 0: not at all",
        from_zero_to(86400)},

    Key{"recovery", "on_failure", SETTING(recovery.on_failure, kOnFailure), "\"replace\"", "",
        "What to do about a lost worker: replace it, shrink to the ranks left, or stop: save what "
        "memory holds, for which neighbour_copies must be on, and end the run"},
    Key{"recovery", "spares", SETTING(recovery.spares), "0", "processes",
        "Warm workers kept ready to take a lost one's place; each takes memory",
        from_zero_to(4096)},
    Key{"recovery", "spare_hosts", SETTING(recovery.spare_hosts), "0", "hosts",
        "Of the hosts so many, the last ones, get no ranks until one is lost; without one the "
        "cluster shrinks then",
        from_zero_to(4096)},
    Key{"recovery", "grow_back", SETTING(recovery.grow_back), "true", "",
        "Whether a cluster that lost hosts grows again to mesh's size when hosts come back, 10 s "
        "after they did and every 5 min at most. On, as the run was meant to be that large"},
    Key{"recovery", "silent", SETTING(recovery.silent_s), "3.0", "seconds",
        "A worker without a sign of life for so long is lost, 0: never. One that still gets a "
        "little "
        "processor time, on a host whose processors others want, has 30 s more",
        from_zero_to(86400)},
    Key{"recovery", "hang", SETTING(recovery.hang_s), "5.0", "seconds",
        "A worker whose action takes this long, and 8 times as long as the longest so far, is lost "
        "too; 0: never",
        from_zero_to(86400)},
    Key{"recovery", "restarts_per_hour", SETTING(recovery.restarts_per_hour), "100", "losses",
        "If more workers are lost in an hour, something is broken: the run ends in order, with all "
        "state saved",
        from_zero_to(1e6)},
    Key{"recovery", "neighbour_copies", SETTING(recovery.neighbour_copies), "true", "",
        "Each stage holds its neighbour's state: a lost worker costs at most one step, at the "
        "price of three times the state's memory more, 37 bytes a parameter. With "
        "data_parallel.sharding each replica holds another's moments instead: 8 bytes a parameter, "
        "divided by mesh.dp, and a lost worker costs nothing"},
    Key{"recovery", "copy_interval", SETTING(recovery.copy_interval), "1", "steps",
        "Steps between two of these copies, which a lost worker costs at most. More where a copy, "
        "12 bytes a parameter, takes longer than a step computes; each stage then also keeps the "
        "copied states of its own, 24 bytes a parameter. Without effect where replicas hold the "
        "state",
        from_one_to(1e9)},

    Key{"monitor", "log_interval", SETTING(log_interval), "1", "steps",
        "Steps between console lines; every step", from_one_to(1e9),
        "logging_steps log_every log_freq print_freq"},
    Key{"monitor", "peak_tflops", SETTING(monitor.peak_tflops), "0.0", "TFLOP/s",
        "What the device of a rank can do at most, for mfu; 0: what the table of GPUs says, and "
        "unknown for a CPU",
        from_zero_to(1e9)},
    Key{"monitor", "timestamps", SETTING(monitor.timestamps), "false", "",
        "Begin each line of the console with the local time; off, as most consoles are watched"},
    Key{"monitor", "tensorboard", SETTING(monitor.tensorboard), "false", "",
        "Write event files for TensorBoard into tensorboard/ of the run directory", kAny,
        "tensorboard_dir enable_tensorboard"},
    Key{"monitor", "histograms", SETTING(histogram_interval), "0", "steps",
        "Steps between histograms of every weight and every gradient in TensorBoard, 0: none; "
        "needs tensorboard. None, as each reads all weights and gradients once more",
        from_zero_to(1e12)},
    Key{"monitor", "prometheus", SETTING(monitor.prometheus), "\"\"", "host:port",
        "Where to answer a Prometheus server, as 127.0.0.1:9090; port 0: any free one, shown by "
        "status --json; empty: nowhere. Every client that reaches it may read"},
    Key{"monitor", "web", SETTING(monitor.web), "\"\"", "host:port",
        "Where to show the run to a browser, as 127.0.0.1:8080; port 0: any free one, shown by "
        "status --json; empty: nowhere. Every client that reaches it may read"},
    Key{"monitor", "hosts", SETTING(monitor.hosts), "[]", "names",
        "Names and addresses by which browsers may ask for the page, beside localhost and the "
        "address of web; empty: all of the machine's own. Requests by other names, which pages of "
        "other sites could make, are refused"},
};

inline constexpr std::array kSetKeys{
    Key{"eval.set", "name", MEMBER(EvalSet, name), "\"\"", "",
        "Name of the set in metrics; empty: the first of files, as it is given"},
    Key{"eval.set", "files", MEMBER(EvalSet, files), "", "paths", "As data.files", kAny,
        "file path paths data data_files"},
    Key{"eval.set", "tokens", MEMBER(EvalSet, tokens), "\"\"", "path",
        "Written by launch: the token file made of files. Replaced when given"},
    Key{"eval.set", "digest", MEMBER(EvalSet, digest), "\"\"", "",
        "Written by launch: XXH64 of the token ids. Replaced when given"},
    Key{"eval.set", "samples", MEMBER(EvalSet, samples), "0", "samples",
        "Written by launch: what tokens makes. Replaced when given", from_zero_to(1e15)},
};

}  // namespace troupe::launch

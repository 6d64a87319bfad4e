#pragma once

#include <array>
#include <string_view>

#include "launch/manifest/keys/key.h"

// The keys of [mesh], [schedule], [recompute] and [data_parallel]. Only keys.cpp includes this.

namespace troupe::launch {

inline constexpr std::array<std::string_view, 4> kRecomputeModes{"none", "selective", "output",
                                                                 "full"};
inline constexpr std::array<std::string_view, 2> kRecomputeMethods{"uniform", "block"};
inline constexpr std::array<std::string_view, 4> kShardings{"none", "optim", "optim_grads",
                                                            "optim_grads_params"};
inline constexpr std::array<std::string_view, 3> kReduceEvery{"auto", "step", "microbatch"};
inline constexpr std::array<std::string_view, 2> kOnDifference{"stop", "repair"};
inline constexpr std::array<std::string_view, 2> kWires{"float32", "bfloat16"};

/// The keys of a table [[stage]].
inline constexpr std::array kStageKeys{
    Key{"stage", "dp", MEMBER(Settings::Stage, dp), "mesh.dp", "replicas",
        "Replicas of the stage; those of two neighbours divide one another. Samples of a "
        "microbatch are batch.micro where stages have most replicas, and as many more as there are "
        "fewer",
        from_one_to(1024), "replicas data_parallel_size"},
    Key{"stage", "tp", MEMBER(Settings::Stage, tp), "mesh.tp", "shards",
        "Shards of each replica of the stage", from_one_to(1024), "shards tensor_parallel_size"},
    Key{"stage", "layers", MEMBER(Settings::Stage, layers), "mesh.layout", "layers",
        "Layers of the stage; either all tables have it or none, in place of mesh.layout, where "
        "stages have one chunk",
        from_one_to(4096), "num_layers"},
    Key{"stage", "device", MEMBER(Settings::Stage, device), "cluster.device", "",
        "What the stage computes with, where stages have several kinds of devices. Messages to "
        "one of another kind go through host memory. It holds for as many stages as there are "
        "tables: if workers are lost and fewer go on, all compute with cluster.device",
        kAny, "device_type"},
    Key{"stage", "hosts", MEMBER(Settings::Stage, hosts), "cluster.hosts", "hosts",
        "Hosts of cluster.hosts on which alone the stage lies: names, which may have ranges as "
        "n[01-04], or numbers from 0 on. It stays there when workers are lost, spares take over, "
        "or it is scaled; only if all of them are lost, others go on with fewer stages",
        kNotNegative, "nodes machines"}};

inline constexpr std::array kParallelKeys{
    Key{"mesh", "pp", SETTING(mesh.pp), "1", "stages",
        "Pipeline stages, a process each; one process unless asked for", from_one_to(1024),
        "pipeline_parallel pipeline_parallel_size pipeline_parallel_degree "
        "pipeline_model_parallel_size pp_size stages num_stages"},
    Key{"mesh", "dp", SETTING(mesh.dp), "1", "replicas",
        "Data-parallel copies of the pipeline; one unless asked for", from_one_to(1024),
        "data_parallel data_parallel_size data_parallel_degree dp_size replicas "
        "data_parallel_replicate_degree"},
    Key{"mesh", "tp", SETTING(mesh.tp), "1", "shards",
        "Tensor-parallel shards of a stage, a process each; they divide its heads, its "
        "feed-forward width and the vocabulary",
        from_one_to(1024),
        "tensor_parallel tensor_parallel_size tensor_parallel_degree tensor_model_parallel_size "
        "tp_size model_parallel_size"},
    Key{.table = "mesh",
        .name = "ep",
        .member = SETTING(mesh.ep),
        .fallback = "1",
        .unit = "replicas",
        .meaning = "Neighbouring replicas that share out the experts of each layer, each with "
                   "model.num_experts / ep of them, and send each other the tokens that these "
                   "compute; divides dp. One unless asked for, because it takes four exchanges a "
                   "layer",
        .rule = from_one_to(1024),
        .called = "expert_parallel expert_parallel_size expert_parallel_degree "
                  "expert_model_parallel_size ep_size",
        .is_rare = true},
    Key{.table = "mesh",
        .name = "etp",
        .member = SETTING(mesh.etp),
        .fallback = "0",
        .unit = "shards",
        .meaning = "Shards that divide the width of each expert: 0, or tp, all of a stage, as they "
                   "divide other layers; 1: each has whole experts, which compute its own tokens, "
                   "so that no product gets small and none of their sums travels, at the price of "
                   "tp times the memory of experts. 1 needs sequence_parallel",
        .rule = from_zero_to(1024),
        .called = "expert_tensor_parallel_size",
        .is_rare = true},
    Key{"mesh", "stage", SETTING(stages), "[]", "",
        "Widths of the stages where they differ: one table [[stage]] for each stage, in order, "
        "with the keys below. What a table leaves out is as the keys above say. None: all alike"},
    Key{"mesh", "sequence_parallel", SETTING(mesh.sequence_parallel), "false", "",
        "Whether shards divide the tokens between their layers too, which takes less memory and "
        "the same communication. Has no effect on one shard"},
    Key{"mesh", "tp_across_hosts", SETTING(cluster.tp_across_hosts), "false", "",
        "Whether the shards of a stage may lie on several hosts where these have no room for whole "
        "stages; off, because shards wait for each other twice a layer, and a network is slow"},
    Key{"mesh", "layout", SETTING(layout), "\"\"", "",
        "How layers are split over chunks: even (or empty), ends, parameters, the layers of each "
        "chunk as 3,2,1, or Megatron-LM's letters; the rules are below. Even is right if layers "
        "outweigh embedding and head"},
    Key{"mesh", "auto", SETTING(auto_mesh), "false", "",
        "Whether launch and plan take the layout with the shortest step that the planner's search "
        "finds for the devices at hand; what it finds stands in the saved manifest, with false "
        "here. Then pp, dp, tp, sequence_parallel, layout, schedule.kind and schedule.chunks are "
        "left out, and batch.micro, recompute.mode and data_parallel.sharding stay as they are if "
        "they are given. Off, as the bits of a run then follow from the machine"},

    Key{"schedule", "kind", SETTING(schedule.kind), "\"1f1b\"", "",
        "A schedule's name, csv, or auto, which measures some steps and then takes the fastest "
        "that changes no loss; 1f1b has gpipe's bubble with the least memory",
        kAny, "pipeline_schedule pipeline_parallel_schedule schedule.type schedule.name"},
    Key{"schedule", "chunks", SETTING(schedule.chunks), "", "chunks",
        "Chunks of a stage; default: the schedule's own (1 or 2), the plan's for csv",
        from_one_to(4096),
        "virtual_pipeline_model_parallel_size num_model_chunks vpp virtual_stages"},
    Key{"schedule", "csv", SETTING(schedule.csv), "\"\"", "path",
        "Plan file for kind csv; a text with a line break is the plan itself"},
    Key{"schedule", "costs", SETTING(schedule.costs), "\"\"", "",
        "What a searched schedule is made for, as troupe schedule --costs takes it, with one value "
        "or one for each chunk; auto writes here what it measured, whichever schedule it takes. "
        "plan then tells the share of a step that stages wait for collectives of shards and for "
        "divided weights. Empty: all actions alike"},
    Key{"schedule", "auto_layout", SETTING(auto_layout.on), "false", "",
        "Measure the stages, and move layers between them if that makes steps shorter; off, "
        "because a move stops the run for a moment"},
    Key{"schedule", "auto_layout_gain", SETTING(auto_layout.gain), "0.05", "",
        "Share of a step that a move must gain in the simulation; more than the simulator's error",
        kFraction},
    Key{"schedule", "auto_layout_steps", SETTING(auto_layout.steps), "100", "steps",
        "At most one measurement, and so one move, in so many steps; their times outweigh its cost",
        Rule{.min = 10, .max = 1e12}},

    Key{"recompute", "mode", SETTING(recompute.mode, kRecomputeModes), "\"none\"", "",
        "What backwards compute again instead of keeping it, which changes no loss: nothing; "
        "selective: the core of attention; output: the outputs of norms and SwiGLU; full: whole "
        "layers from their inputs, for the time of another forward. Nothing by default, as time "
        "comes before memory",
        kAny,
        "gradient_checkpointing activation_checkpointing activation_checkpoint "
        "recompute_activations recompute_granularity recompute.enabled"},
    Key{"recompute", "method", SETTING(recompute.method, kRecomputeMethods), "\"uniform\"", "",
        "What full computes again: uniform: all layers of a chunk, in groups of num_layers, each "
        "from its input; block: the first num_layers of each chunk, each from its own input. "
        "Uniform takes the least memory"},
    Key{"recompute", "num_layers", SETTING(recompute.num_layers), "1", "layers",
        "Layers of a group, or of a chunk's block; single layers keep the most inputs, but need "
        "the least memory while they are computed again",
        from_one_to(4096)},
    Key{"recompute", "kept_microbatches", SETTING(recompute.kept_microbatches), "0", "microbatches",
        "Of the microbatches that a chunk holds at once, so many keep everything: the first ones "
        "of each window, if it holds more. None by default; more take memory and save time",
        from_zero_to(1e6)},
    Key{"recompute", "distribute_saved_activations",
        SETTING(recompute.distribute_saved_activations), "false", "",
        "Whether each shard keeps a part of every input that full keeps, and all of them gather it "
        "again. Not with mesh.sequence_parallel, where each has tokens of its own; has no effect "
        "on one shard. Off, because it takes a collective a group"},

    Key{"data_parallel", "sharding", SETTING(data_parallel.division, kShardings), "\"none\"", "",
        "What the replicas of a stage divide among themselves: none, each holds all weights, "
        "gradients and moments; optim, each holds the moments of a slice of every bucket and "
        "updates the weights there; optim_grads, it keeps the gradients of its slices alone, too; "
        "optim_grads_params, and their weights, and gathers those of a layer when it computes with "
        "it. No bit depends on whether moments and weights are divided",
        kAny, "zero zero_stage zero_optimization fsdp sharding_strategy data_parallel.stage"},
    Key{"data_parallel", "reduce_every", SETTING(reduce_every, kReduceEvery), "\"auto\"", "",
        "When replicas add their gradients: once a step, or after every microbatch, so that "
        "sharded gradients are never whole; another order of sums, and the same bits where a "
        "replica has one microbatch. auto: microbatch where gradients are sharded, else step"},
    Key{"data_parallel", "num_optimizer_instances", SETTING(data_parallel.instances), "1",
        "instances",
        "With a sharding: groups of consecutive replicas, each of which divides the state among "
        "its members, so that weights and gradients travel within a group, and only sums of slices "
        "between them. One, as more take more memory; one a machine, if links between machines are "
        "slow",
        from_one_to(1024)},
    Key{"data_parallel", "prefetch", SETTING(data_parallel.prefetch), "1", "layers",
        "With optim_grads_params: how many layers (or embedding, or head) are gathered ahead of "
        "the one that is computed with, in forwards and in backwards each. One hides a gather "
        "behind a layer's products; more take more memory",
        from_zero_to(1000)},
    Key{"data_parallel", "reshard_after_forward", SETTING(data_parallel.reshards), "true", "",
        "With optim_grads_params: whether a layer's weights are given up after its forward and "
        "gathered again for its backward. Off: weights stay gathered to the end of the step, which "
        "takes their whole memory and one gather"},
    Key{"data_parallel", "bucket_size", SETTING(data_parallel.buckets.size), "1000000", "elements",
        "Replicas add their gradients in buckets of whole parameters, each full with so many "
        "elements. Small ones begin early beside the backward pass, large ones take fewer messages",
        from_one_to(1e15)},
    Key{"data_parallel", "num_buckets", SETTING(data_parallel.buckets.count), "0", "buckets",
        "Buckets of a stage, of about equal size, instead of bucket_size; 0: bucket_size decides",
        from_zero_to(1e6)},
    Key{"data_parallel", "overlap_grad_reduce", SETTING(data_parallel.overlaps), "true", "",
        "Whether a bucket is added as soon as its gradients are complete, while backwards of other "
        "layers compute. On; off only shows what it hides. No bit depends on it"},
    Key{"data_parallel", "overlap_param_gather", SETTING(data_parallel.overlaps_gather), "true", "",
        "With a sharding: whether weights that other replicas have updated travel beside what "
        "follows the update, until they are read. On; off only shows what it hides. No bit depends "
        "on it"},
    Key{"data_parallel", "grad_reduce_dtype", SETTING(data_parallel.wire, kWires), "\"float32\"",
        "",
        "What gradients travel as between replicas: float32, or bfloat16, half the bytes, added in "
        "float32 and rounded once. float32, as exactness comes before speed"},
    Key{"data_parallel", "check_for_nan", SETTING(data_parallel.checks_finite), "false", "",
        "Look for gradients that are not finite before they are added, so that the run ends with "
        "the rank, bucket and parameter that had the first. Off, as it reads every gradient once "
        "more; the sum is always checked"},
    Key{"data_parallel", "large_grad_norm", SETTING(data_parallel.large_norm), "0.0", "",
        "An event for each bucket whose norm is above it before it is added; 0: none", kFinite},
    Key{"data_parallel", "on_difference", SETTING(data_parallel.repairs, kOnDifference), "\"stop\"",
        "",
        "What to do if replicas have different weights when the run starts, resumes, or goes on "
        "after a loss or change: stop the run, or repair them, with the weights and moments that "
        "most replicas have. Stop, as something is broken"},
};

}  // namespace troupe::launch

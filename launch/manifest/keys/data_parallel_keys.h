#pragma once

#include <array>
#include <string_view>

#include "launch/manifest/keys/key_rules.h"

// The keys of [data_parallel], a part of manifest_keys(). Only defaults.cpp includes this.

namespace troupe::launch {

inline constexpr std::array<std::string_view, 4> kShardings{"none", "optim", "optim_grads",
                                                            "optim_grads_params"};
inline constexpr std::array<std::string_view, 3> kReduceEvery{"auto", "step", "microbatch"};
inline constexpr std::array<std::string_view, 2> kOnDifference{"stop", "repair"};
inline constexpr std::array<std::string_view, 2> kWires{"float32", "bfloat16"};

inline constexpr std::array kDataParallelKeys{
    Key{"data_parallel",
        "sharding",
        Kind::text,
        "\"none\"",
        "",
        "What the replicas of a stage divide among themselves: none, each holds all weights, "
        "gradients and moments; optim, each holds the moments of a slice of every bucket and "
        "updates the weights there; optim_grads, it keeps the gradients of its slices alone, too; "
        "optim_grads_params, and their weights, and gathers those of a layer when it computes with "
        "it. No bit depends on whether moments and weights are divided",
        {},
        kShardings},
    Key{"data_parallel",
        "reduce_every",
        Kind::text,
        "\"auto\"",
        "",
        "When replicas add their gradients: once a step, or after every microbatch, so that "
        "sharded gradients are never whole; another order of sums, and the same bits where a "
        "replica has one microbatch. auto: microbatch where gradients are sharded, else step",
        {},
        kReduceEvery},
    Key{"data_parallel", "num_optimizer_instances", Kind::integer, "1", "instances",
        "With a sharding: groups of consecutive replicas, each of which divides the state among "
        "its "
        "members, so that weights and gradients travel within a group, and only sums of slices "
        "between them. One, as more take more memory; one a machine, if links between machines are "
        "slow",
        from_one_to(1024)},
    Key{"data_parallel", "prefetch", Kind::integer, "1", "layers",
        "With optim_grads_params: how many layers (or embedding, or head) are gathered ahead of "
        "the one that is computed with, in forwards and in backwards each. One hides a gather "
        "behind a layer's products; more take more memory",
        Rule{.min = 0, .max = 1000}},
    Key{"data_parallel", "reshard_after_forward", Kind::boolean, "true", "",
        "With optim_grads_params: whether a layer's weights are given up after its forward and "
        "gathered again for its backward. Off: weights stay gathered to the end of the step, "
        "which takes their whole memory and one gather"},
    Key{"data_parallel", "bucket_size", Kind::integer, "1000000", "elements",
        "Replicas add their gradients in buckets of whole parameters, each full with so many "
        "elements. Small ones begin early beside the backward pass, large ones take fewer messages",
        from_one_to(1e15)},
    Key{"data_parallel", "num_buckets", Kind::integer, "0", "buckets",
        "Buckets of a stage, of about equal size, instead of bucket_size; 0: bucket_size decides",
        Rule{.min = 0, .max = 1e6}},
    Key{"data_parallel", "overlap_grad_reduce", Kind::boolean, "true", "",
        "Whether a bucket is added as soon as its gradients are complete, while backwards of other "
        "layers compute. On; off only shows what it hides. No bit depends on it"},
    Key{"data_parallel", "overlap_param_gather", Kind::boolean, "true", "",
        "With a sharding: whether weights that other replicas have updated travel beside what "
        "follows the update, until they are read. On; off only shows what it hides. No bit depends "
        "on it"},
    Key{"data_parallel",
        "grad_reduce_dtype",
        Kind::text,
        "\"float32\"",
        "",
        "What gradients travel as between replicas: float32, or bfloat16, half the bytes, added in "
        "float32 and rounded once. float32, as exactness comes before speed",
        {},
        kWires},
    Key{"data_parallel", "check_for_nan", Kind::boolean, "false", "",
        "Look for gradients that are not finite before they are added, so that the run ends with "
        "the rank, bucket and parameter that had the first. Off, as it reads every gradient once "
        "more; the sum is always checked"},
    Key{"data_parallel", "large_grad_norm", Kind::number, "0.0", "",
        "An event for each bucket whose norm is above it before it is added; 0: none", kFinite},
    Key{"data_parallel",
        "on_difference",
        Kind::text,
        "\"stop\"",
        "",
        "What to do if replicas have different weights when the run starts, resumes, or goes on "
        "after a loss or change: stop the run, or repair them, with the weights and moments that "
        "most replicas have. Stop, as something is broken",
        {},
        kOnDifference},
};

}  // namespace troupe::launch

"""Benchmarks of data parallelism: what two replicas cost, what backwards hide of their reductions, and what it costs to
divide state among them."""
import concurrent.futures, statistics

from cluster import MICRO, SEQ_LEN, RunBox, model_of, samples_of
from measure import Row, output_of

GROUP = "replicas of stage 0"


def steps_of(bench, box, name, samples, *settings):
    """The metrics of a run of the measured model whose replicas have one thread each, of its steps except the first."""
    manifest = box.manifest(name, model_of(bench), steps=2 if bench.smoke else 6, seq_len=SEQ_LEN, micro=MICRO,
                            samples=samples, pp=1, threads=1)
    sets = [word for setting in settings for word in ("--set", setting)]
    output_of(bench.troupe, "launch", manifest, *sets, timeout=300)
    return box.metrics(name)[1:]


def speed(bench, box, name, samples, *settings):
    """Tokens/s of such a run: the median of its steps."""
    return statistics.median(row["tokens_per_s"] for row in steps_of(bench, box, name, samples, *settings))


def dp_two(bench):
    """Two replicas of one thread each, over two runs of one thread that train beside each other on half the samples.
    None is bound to a core, because both runs would have the same one in mind."""
    dtype = "bfloat16" if bench.name.endswith("_bf16") else "float32"
    alike = f"model.dtype={dtype}", "cluster.pin=false"
    with RunBox() as box, concurrent.futures.ThreadPoolExecutor() as both:
        for i in range(bench.repeats(5)):
            two = speed(bench, box, f"two-{i}", samples_of(bench), "mesh.dp=2", *alike)
            halves = [both.submit(speed, bench, box, f"alone-{i}-{side}", samples_of(bench) // 2, *alike)
                      for side in range(2)]
            alone = sum(half.result() for half in halves)
            bench.record("two replicas, tokens/s", two)
            bench.record("two runs, tokens/s", alone)
            bench.record("ratio", two / alone)
    return Row(bench.name, bench.median("two replicas, tokens/s"), "tokens/s", bench.median("ratio"),
               f"two runs: {bench.median('two runs, tokens/s'):.0f} tokens/s")


def reductions(bench, box, name, *settings):
    """Of a run with two replicas, the median over its steps: the share of the reductions' time that the replicas stood
    still for them, and the time of a step."""
    rows = steps_of(bench, box, name, samples_of(bench), "mesh.dp=2", *settings)
    times = [next(c for c in row["collectives"] if c["group"] == GROUP) for row in rows]
    return (statistics.median(c["exposed_s"] / c["time_s"] for c in times),
            statistics.median(row["step_s"] for row in rows))


def dp_overlap(bench):
    """Share of the time of the gradients' reductions that two replicas wait for them."""
    with RunBox() as box:
        for i in range(bench.repeats(3)):
            share, step_s = reductions(bench, box, f"on-{i}")
            _, late_s = reductions(bench, box, f"off-{i}", "data_parallel.overlap_grad_reduce=false")
            bench.record("exposed share", share)
            bench.record("step, s", step_s)
            bench.record("step without overlap, s", late_s)
            bench.record("ratio", late_s / step_s)
    return Row(bench.name, bench.median("exposed share"), "share", bench.median("ratio"),
               f"a step without overlap: {bench.median('step without overlap, s'):.3f} s")


def sharded_two(bench):
    """Two replicas of one thread each that divide state, over two that each hold all of it."""
    sharding = {"zero1_two": "optim", "fsdp_two": "optim_grads_params"}[bench.name]
    with RunBox() as box:
        for i in range(bench.repeats(3)):
            speeds = {}
            # Each goes first in turn, because a machine that gets slower or faster would favour one of them.
            for mode in ("none", sharding)[::-1 if i % 2 else 1]:
                speeds[mode] = speed(bench, box, f"{mode}-{i}", samples_of(bench), "mesh.dp=2",
                                     f"data_parallel.sharding={mode}")
                bench.record(f"{mode}, tokens/s", speeds[mode])
            bench.record("ratio", speeds[sharding] / speeds["none"])
    return Row(bench.name, bench.median(f"{sharding}, tokens/s"), "tokens/s", bench.median("ratio"),
               f"nothing divided: {bench.median('none, tokens/s'):.0f} tokens/s")

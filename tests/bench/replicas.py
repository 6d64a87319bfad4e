"""Benchmarks of data parallelism: what two replicas cost, and what backwards hide of their reductions."""
import concurrent.futures, statistics

from cluster import MEASURED_MODEL, MICRO, PIPELINE_SAMPLES, SEQ_LEN, RunBox
from measure import Row, output_of

GROUP = "replicas of stage 0"


def speed(bench, box, name, replicas, samples, dtype):
    """Tokens/s of a run of the measured model whose replicas have one thread each: the median of its steps except the
    first. It is bound to no core, because another run may have the same ones in mind."""
    manifest = box.manifest(name, MEASURED_MODEL, steps=2 if bench.smoke else 6, seq_len=SEQ_LEN, micro=MICRO,
                            samples=samples, pp=1, threads=1)
    sets = [word for setting in (f"mesh.dp={replicas}", f"model.dtype={dtype}", "cluster.pin=false")
            for word in ("--set", setting)]
    output_of(bench.troupe, "launch", manifest, *sets, timeout=300)
    return statistics.median(row["tokens_per_s"] for row in box.metrics(name)[1:])


def dp_two(bench):
    """Two replicas of one thread each, over two runs of one thread that train beside each other on half the samples."""
    dtype = "bfloat16" if bench.name.endswith("_bf16") else "float32"
    with RunBox() as box, concurrent.futures.ThreadPoolExecutor() as both:
        for i in range(bench.repeats(5)):
            two = speed(bench, box, f"two-{i}", 2, PIPELINE_SAMPLES, dtype)
            halves = [both.submit(speed, bench, box, f"alone-{i}-{side}", 1, PIPELINE_SAMPLES // 2, dtype)
                      for side in range(2)]
            alone = sum(half.result() for half in halves)
            bench.record("two replicas, tokens/s", two)
            bench.record("two runs, tokens/s", alone)
            bench.record("ratio", two / alone)
    return Row(bench.name, bench.median("two replicas, tokens/s"), "tokens/s", bench.median("ratio"),
               f"two runs: {bench.median('two runs, tokens/s'):.0f} tokens/s")


def reductions(bench, box, name, *settings):
    """Of a run of the measured model with two replicas of one thread, the median over its steps except the first: the
    share of the reductions' time that the replicas stood still for them, and the time of a step."""
    steps = 2 if bench.smoke else 6
    manifest = box.manifest(name, MEASURED_MODEL, steps=steps, seq_len=SEQ_LEN, micro=MICRO, samples=PIPELINE_SAMPLES,
                            pp=1, threads=1)
    sets = [word for setting in ("mesh.dp=2", *settings) for word in ("--set", setting)]
    output_of(bench.troupe, "launch", manifest, *sets, timeout=300)
    rows = box.metrics(name)[1:]
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

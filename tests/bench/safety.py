"""The cost of a run's safety in step time: the neighbours' copies of its state, and checkpoints."""
import statistics

from cluster import MICRO, SEQ_LEN, RunBox, model_of, samples_of
from live_run import LiveRun
from measure import Row, output_of

PAIRS = CHECKPOINTS = 9
STEPS = 3  # per run; the first one warms up
INTERVAL = 10  # assumed steps between checkpoints, for the mean added step time that is printed


def batch_of(bench):
    return dict(seq_len=SEQ_LEN, micro=MICRO, samples=samples_of(bench))


def median_step_s(bench, box, name, copies):
    """Median step time of a separate run, with the neighbours' copies or without."""
    manifest = box.manifest(name, model_of(bench), steps=STEPS, pp=2, threads=1, **batch_of(bench))
    output_of(bench.troupe, "launch", manifest, "--set", "checkpoint.interval=0", "--set",
              f"recovery.neighbour_copies={str(copies).lower()}", timeout=300)
    return statistics.median(row["step_s"] for row in box.metrics(name)[1:])


def neighbour_copy_cost(bench):
    """Step time with the state of each step copied to a neighbour over step time without, runs in turn."""
    with RunBox() as box:
        for i in range(bench.repeats(PAIRS)):
            without = median_step_s(bench, box, f"without-{i}", False)
            copied = median_step_s(bench, box, f"with-{i}", True)
            bench.record("step without copies, s", without)
            bench.record("step with copies, s", copied)
            bench.record("ratio", copied / without)
    return Row(bench.name, bench.median("step with copies, s"), "s", bench.median("ratio"),
               f"no copies: {bench.median('step without copies, s'):.3f} s a step")


def checkpoint_stall(bench):
    """A checkpoint after every third step: it is written during the next step, whose update waits for what is not
    written by then; the third step is not affected."""
    checkpoints = bench.repeats(CHECKPOINTS)
    with RunBox() as box, LiveRun(bench, box, "saves", "checkpoint.interval=3", pp=2, batch=batch_of(bench)) as run:
        run.wait_for_step(3 * checkpoints + 3)
        steps = run.steps()
        for saved in run.events("checkpoint")[:checkpoints]:
            beside, after, quiet = (steps[saved["step"] + i]["step_s"] for i in (1, 2, 3))
            bench.record("step without a checkpoint, s", quiet)
            bench.record("writing, s", saved["duration_s"])
            bench.record("wait of the step loop, s", max(0, saved["duration_s"] - beside))
            bench.record(f"added to a step at interval {INTERVAL}, s", (beside + after - 2 * quiet) / INTERVAL)
    wait, usual = bench.median("wait of the step loop, s"), bench.median("step without a checkpoint, s")
    return Row(bench.name, wait, "s", wait / usual, f"a step: {usual:.3f} s")

"""Benchmarks of schedules: what the simulator says against what the runtime takes."""
import itertools, json

from measure import Row, output_of

ONE_COPY = ["gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "zb-1p", "zb-2p", "zb-auto",
            "interleaved-zb", "zb-v", "zb-v-static", "v-half", "v-min", "dualpipe-v", "hanayo", "combined-1f1b"]
TWO_COPIES = ["dualpipe", "chimera"]


def measure(bench, mode, ranks, microbatches, steps, kinds):
    """Rows of schedule_bench by kind."""
    lines = output_of(bench.program("schedule_bench"), mode, ranks, microbatches, steps, *kinds, timeout=600)
    return {row["kind"]: row for row in map(json.loads, lines.splitlines())}


def errors(bench, mode, ranks, microbatches, steps, kinds):
    """Records what every schedule took and should have taken, three times; the medians by kind."""
    what = ("error", "measured_s", "measured_work", "simulated_work")
    for _ in range(bench.repeats(3)):
        for kind, row in measure(bench, mode, ranks, microbatches, bench.repeats(steps), kinds).items():
            for name in what:
                bench.record(f"{kind}, {name}", row[name])
    return {kind: {name: bench.median(f"{kind}, {name}") for name in what} for kind in kinds}


def summary(bench, rows, margin):
    """The largest error; which schedules the simulator calls faster, by more than the margin, and the runtime not."""
    worst = max(rows, key=lambda kind: rows[kind]["error"])
    swapped = [f"{a}/{b}" for a, b in itertools.permutations(rows, 2)
               if rows[a]["simulated_work"] < (1 - margin) * rows[b]["simulated_work"]
               and rows[a]["measured_work"] > rows[b]["measured_work"]]
    return Row(bench.name, rows[worst]["error"], "share", None,
               f"worst: {worst}; faster as simulated (by {margin:.0%}), slower as measured: "
               f"{', '.join(swapped) or 'none'}")


def gain(rows, kind, what):
    """How much shorter a step is than with 1f1b, as a share."""
    return 1 - rows[kind][what] / rows["1f1b"][what]


def simulated_vs_measured(bench):
    """The measured model on two ranks of one thread, every schedule: the largest error of a simulated step."""
    rows = errors(bench, "compute", 2, 8, 3, ONE_COPY + TWO_COPIES)
    for faster in ("zb-h1", "interleaved"):
        simulated, measured = (gain(rows, faster, f"{what}_work") for what in ("simulated", "measured"))
        bench.record(f"{faster}, simulated gain over 1f1b, %", 100 * simulated)
        bench.record(f"{faster}, measured gain over 1f1b, %", 100 * measured)
    return summary(bench, rows, 0.03)


def simulated_vs_measured_8(bench):
    """Eight ranks whose stages wait instead of computing: the same."""
    return summary(bench, errors(bench, "wait", 8, 16, 3, ONE_COPY + TWO_COPIES), 0.01)


def combined_hides(bench):
    """How much less than where every message is waited for a rank stands still for messages on their way."""
    steps = 1 if bench.smoke else 3
    for _ in range(bench.repeats(9)):
        beside = measure(bench, "slow", 2, 16, steps, ["combined-1f1b", "interleaved"])
        waited = measure(bench, "slow-sends", 2, 16, steps, ["interleaved"])["interleaved"]["exposed_s"]
        bench.record("interleaved, every message waited for: exposed s", waited)
        bench.record("interleaved, messages beside computation: exposed s", beside["interleaved"]["exposed_s"])
        bench.record("combined-1f1b: exposed s", beside["combined-1f1b"]["exposed_s"])
        bench.record("hidden", 1 - beside["combined-1f1b"]["exposed_s"] / waited)
    waited, beside, combined = (bench.median(f"{what}: exposed s") * 1e3 for what in (
        "interleaved, every message waited for", "interleaved, messages beside computation", "combined-1f1b"))
    return Row(bench.name, bench.median("hidden"), "share", None,
               f"interleaved, every message waited for: {waited:.1f} ms; as ours runs, beside computation: "
               f"{beside:.1f} ms; combined: {combined:.1f} ms")

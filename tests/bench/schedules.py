"""Benchmarks of schedules: the simulator's predictions against the times of the runtime."""
import collections, itertools, json, re, statistics, subprocess

from cluster import RunBox
from live_run import LiveRun
from measure import Row, output_of, running

ONE_COPY = ["gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "zb-1p", "zb-2p", "zb-auto",
            "interleaved-zb", "zb-v", "zb-v-static", "v-half", "v-min", "dualpipe-v", "hanayo", "combined-1f1b"]
TWO_COPIES = ["dualpipe", "chimera"]


def all_kinds(bench):
    return ["1f1b", "interleaved", "zb-h1", "dualpipe"] if bench.smoke else ONE_COPY + TWO_COPIES


def measure(bench, mode, ranks, microbatches, steps, kinds):
    """Rows of schedule_bench by kind."""
    lines = output_of(bench.program("schedule_bench"), mode, ranks, microbatches, steps, *kinds, timeout=600)
    return {row["kind"]: row for row in map(json.loads, lines.splitlines())}


def errors(bench, mode, ranks, microbatches, steps, kinds):
    """Records measured and simulated times of every schedule, three times. Returns the medians by kind."""
    what = ("error", "measured_s", "measured_work", "simulated_work")
    for _ in range(bench.repeats(3)):
        for kind, row in measure(bench, mode, ranks, microbatches, bench.repeats(steps), kinds).items():
            for name in what:
                bench.record(f"{kind}, {name}", row[name])
    return {kind: {name: bench.median(f"{kind}, {name}") for name in what} for kind in kinds}


def summary(bench, rows, margin):
    """The largest error; the pairs that the simulator orders by more than the margin and the runtime in reverse."""
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
    rows = errors(bench, "compute", 2, 8, 3, all_kinds(bench))
    for faster in ("zb-h1", "interleaved"):
        simulated, measured = (gain(rows, faster, f"{what}_work") for what in ("simulated", "measured"))
        bench.record(f"{faster}, simulated gain over 1f1b, %", 100 * simulated)
        bench.record(f"{faster}, measured gain over 1f1b, %", 100 * measured)
    return summary(bench, rows, 0.03)


def simulated_vs_measured_8(bench):
    """Every schedule on eight ranks whose stages wait instead of computing: the largest error of a simulated step."""
    return summary(bench, errors(bench, "wait", 8, 16, 3, all_kinds(bench)), 0.01)


def post_validation(bench):
    """Ranks under zb-h2 that wait instead of computing: a step without the optimizer's barrier over one with it."""
    steps = 1 if bench.smoke else 12
    for _ in range(bench.repeats(5)):
        row = json.loads(output_of(bench.program("validation_bench"), "zb-h2", 4, 8, steps, timeout=600))
        bench.record("behind a barrier: s a step", row["barrier_s"])
        bench.record("ahead: s a step", row["ahead_s"])
        bench.record("ahead over barrier", row["ratio"])
    ratio, predicted = bench.median("ahead over barrier"), row["predicted_ratio"]
    return Row(bench.name, ratio, "share", predicted / ratio,
               f"as predicted: {predicted:.3f}; {bench.median('ahead: s a step') * 1e3:.1f} ms a step, "
               f"behind a barrier {bench.median('behind a barrier: s a step') * 1e3:.1f} ms")


def combined_hides(bench):
    """How much less a rank stands still for messages on their way than if every message were waited for, as a share."""
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


def tensor_hides(bench):
    """The time that shards stand still for collectives under combined-1f1b, over that under interleaved."""
    return exposed_collectives(bench, "shards")


def moe_hides(bench):
    """The same of replicas that share experts out, for the tokens that travel to these and back."""
    return exposed_collectives(bench, "experts")


def exposed_collectives(bench, mode):
    steps = 1 if bench.smoke else 3
    for _ in range(bench.repeats(7)):
        rows = measure(bench, mode, 2, 16, steps, ["interleaved", "combined-1f1b"])
        exposed = {kind: row["collective_s"] for kind, row in rows.items()}
        for kind, seconds in exposed.items():
            bench.record(f"{kind}: exposed s", seconds)
        bench.record("exposed", exposed["combined-1f1b"] / exposed["interleaved"])
    beside, combined = (bench.median(f"{kind}: exposed s") * 1e3 for kind in ("interleaved", "combined-1f1b"))
    return Row(bench.name, bench.median("exposed"), "share", None,
               f"interleaved: {beside:.1f} ms exposed a step, both ranks; combined: {combined:.1f} ms")


def actions_of(bench, run, count):
    """The actions of both ranks in the next `count` whole steps: a dict by (chunk, op, microbatch) for each step."""
    steps, complete = {}, {}
    with running(bench.troupe, "attach", run.dir, "--json", "--events", "actions", stdout=subprocess.PIPE,
                 text=True) as reader:
        while len(whole := sorted(step for step, ranks in complete.items() if len(ranks) == 2)) < count:
            event = json.loads(reader.stdout.readline())
            if event["kind"] != "actions":
                continue
            for action in event["actions"]:
                chunk, op, microbatch = re.fullmatch(r"(\d+)([A-Z])(\d+)", action["name"]).groups()
                steps.setdefault(event["step"], {})[int(chunk), op, int(microbatch)] = action | {"rank": event["rank"]}
            if event["complete"]:
                complete.setdefault(event["step"], set()).add(event["rank"])
    return [steps[step] for step in whole]


def travel(actions):
    """The messages of a step into the rank that sets the pace: their number, the ways of those that were awaited all
    the while, and how long the rank stood still while the message it lacked was on its way. The rank that waits least
    sets the pace: the others wait for what it computes, and then for the way, too, whatever that takes."""
    waits = {}
    for action in actions.values():
        waits[action["rank"]] = waits.get(action["rank"], 0) + action["waited_s"]
    pace = min(waits, key=waits.get)
    count, hops, exposed = 0, [], 0
    for (chunk, op, microbatch), action in actions.items():
        sender = actions.get((chunk + (-1 if op == "F" else 1), op, microbatch))
        if sender is None or action["from"] < 0 or action["rank"] != pace:
            continue
        count += 1
        if action["waited_s"] <= 0:
            continue
        asked_s = action["begin_s"] - action["waited_s"]
        if sender["sent_s"] > asked_s:
            hops.append(action["begin_s"] - sender["sent_s"])
        exposed += max(0, action["begin_s"] - max(asked_s, sender["sent_s"]))
    return count, hops, exposed


def combined_hides_launched(bench):
    """combined_hides for a launched run, from the actions that its ranks report; messages travel over TCP."""
    batch = dict(seq_len=256, micro=1, samples=16)
    # These settings make chunks as alike as possible.
    alike = ("model.vocab_size=256", "checkpoint.interval=0", "recovery.neighbour_copies=false", "schedule.chunks=2")
    for kind in ("interleaved", "combined-1f1b"):
        with RunBox() as box, LiveRun(bench, box, kind, *alike, f"schedule.kind={kind}", pp=2, batch=batch,
                                      env={"UCX_TLS": "tcp,self"}) as run:
            run.wait_for_step(1)  # the first step warms up
            measured = []
            while not any(hops for _, hops, _ in measured):  # a step may have awaited no message at all
                measured += [travel(actions) for actions in actions_of(bench, run, bench.repeats(9))]
        hop = statistics.median(hop for _, hops, _ in measured for hop in hops)
        bench.record(f"{kind}: a message's way, s", hop)
        for count, _, exposed in measured:
            bench.record(f"{kind}: messages", count)
            bench.record(f"{kind}: exposed s", exposed)
            bench.record(f"{kind}: hidden", 1 - exposed / (count * hop))
    exposed = bench.median("interleaved: exposed s") * 1e3
    return Row(bench.name, bench.median("combined-1f1b: hidden"), "share", None,
               f"as if each message were waited for; interleaved: {bench.median('interleaved: hidden'):.3f}, "
               f"{exposed:.2f} ms exposed; combined: {bench.median('combined-1f1b: exposed s') * 1e3:.2f} ms")


def stood_still(bench, run, ranks, count):
    """The seconds that all ranks together stood still for collectives of passes in each of `count` whole steps."""
    seconds, complete = collections.Counter(), collections.Counter()
    with running(bench.troupe, "attach", run.dir, "--json", "--events", "actions", stdout=subprocess.PIPE,
                 text=True) as reader:
        while list(complete.values()).count(ranks) < count:
            event = json.loads(reader.stdout.readline())
            if event["kind"] != "actions":
                continue
            seconds[event["step"]] += sum(action["collective_s"] for action in event["actions"])
            complete[event["step"]] += event["complete"]
    return [seconds[step] for step, number in complete.items() if number == ranks]


def moe_hides_launched(bench):
    """moe_hides for a launched run of two stages and two replicas, from the actions that its ranks report."""
    batch = dict(seq_len=256, micro=1, samples=16)
    keys = ("model.kind=mixtral", "model.num_experts=4", "model.num_experts_per_tok=2", "model.vocab_size=256",
            "mesh.dp=2", "mesh.ep=2", "checkpoint.interval=0", "recovery.neighbour_copies=false", "schedule.chunks=2")
    for kind in ("interleaved", "combined-1f1b"):
        with RunBox() as box, LiveRun(bench, box, kind, *keys, f"schedule.kind={kind}", pp=2, batch=batch) as run:
            run.wait_for_step(1)  # the first step warms up
            for seconds in stood_still(bench, run, 4, bench.repeats(9)):
                bench.record(f"{kind}: exposed s", seconds)
    beside, combined = (bench.median(f"{kind}: exposed s") for kind in ("interleaved", "combined-1f1b"))
    return Row(bench.name, combined / beside, "share", None,
               f"interleaved: {beside * 1e3:.1f} ms exposed a step, all ranks; combined: {combined * 1e3:.1f} ms")

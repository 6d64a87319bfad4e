"""How long a run stands still when it loses a worker, and when its stages change."""
import json, os, random, signal, time

from cluster import RunBox
from live_run import LiveRun
from measure import Row, output_of

KILLS = CHANGES = 5
SHARD_KILLS = 9
PERIOD_S = 60  # between kills, when speed is measured
QUIET = 4  # steps before each strike and each order, to compare with and for a spare to warm up
BATCH = dict(seq_len=128, micro=1, samples=8)
SHORT_BATCH = dict(BATCH, samples=4)  # steps of less than a second on two cores


def record_phases(bench, event):
    for phase, seconds in event["phases"].items():
        bench.record(phase, seconds)


def strike(bench, run, rng):
    """Kills a worker at random, at a random moment of a step; waits until the run has recovered."""
    last = run.newest()
    usual = run.median_step_s(range(last - QUIET + 2, last + 1))
    victim = rng.choice(run.status()["ranks"])["pid"]
    time.sleep(rng.random() * usual)
    seen = len(run.events("recovered"))
    killed = time.time()
    os.kill(victim, signal.SIGKILL)
    event = run.next_event("recovered", seen)
    # The newest state that survived may be that of the step before, so count the steps that were computed after the
    # kill.
    began = next(e for e in run.events("membership") if e["configuration"] == event["configuration"])
    computed = event["step"] - began["step"]
    bench.record("step, s", usual)
    bench.record("steps computed again", computed - 1)
    bench.record("kill to commit, s", event["time"] - killed)
    bench.record("loss, s", event["time"] - killed - computed * usual)
    record_phases(bench, event)


def recovery(bench):
    """Seconds that a kill costs: to the commit of the lowest step that was not committed, less what steps take."""
    rng = random.Random(bench.name)
    spares = 1 if bench.name == "recovery_spare" else 0
    with RunBox() as box, LiveRun(bench, box, "kills", "checkpoint.interval=0", f"recovery.spares={spares}", pp=4,
                                  batch=BATCH) as run:
        run.wait_for_step(1)  # the first step warms up
        for _ in range(bench.repeats(KILLS)):
            run.train(QUIET)
            strike(bench, run, rng)
    return Row(bench.name, bench.median("loss, s"), "s")


def collective_at_fault(run, survivor, victim):
    """The record of the collective in which rank `survivor` waited for `victim`; None if it was in none."""
    path = run.dir / f"logs/rank-{survivor}/collectives.jsonl"
    records = map(json.loads, path.read_text().splitlines() if path.exists() else [])
    return next((r for r in records if r["finished"] is None and victim in r["missing"]), None)


def collective_kill(bench):
    """Seconds from the kill of a shard until the other one has given up the collective in which it waits, and has
    written down who is missing: the longest of all kills."""
    rng = random.Random(bench.name)
    with RunBox() as box, LiveRun(bench, box, "kills", "checkpoint.interval=0", "mesh.tp=2", pp=1,
                                  batch=SHORT_BATCH) as run:
        run.wait_for_step(1)
        while len(bench.samples.get("kill to release, s", [])) < bench.repeats(SHARD_KILLS):
            run.train(QUIET)
            newest = run.newest()
            usual = run.median_step_s(range(newest - QUIET + 2, newest + 1))
            victim = run.status()["ranks"][1]["pid"]
            time.sleep(rng.random() * usual)
            seen = len(run.events("recovered"))
            killed = time.time()
            os.kill(victim, signal.SIGKILL)
            run.next_event("recovered", seen)
            if collective_at_fault(run, 0, 1):  # else the kill met no collective
                written = (run.dir / "logs/rank-0/collectives.jsonl").stat().st_mtime
                bench.record("kill to release, s", written - killed)
    return Row(bench.name, max(bench.samples["kill to release, s"]), "s")


def speed_after(run, seconds):
    """Committed steps per second from the next commit on, over at least `seconds`."""
    first = run.newest()
    run.train(1)
    begin = time.monotonic()
    first += 1
    while (elapsed := time.monotonic() - begin) < seconds:
        run.train(1)
    return (run.newest() - first) / elapsed


def kill_each_minute(bench):
    """Tokens/s of a run that loses a worker once a minute, over its own tokens/s undisturbed, for a minute of
    each in turn."""
    rng = random.Random(bench.name)
    period = 5 if bench.smoke else PERIOD_S
    with RunBox() as box, LiveRun(bench, box, "kills", "checkpoint.interval=0", pp=4,
                                  batch=SHORT_BATCH) as run:
        run.wait_for_step(QUIET)
        for _ in range(bench.repeats(KILLS)):
            undisturbed = speed_after(run, period)
            seen = len(run.events("recovered"))
            os.kill(rng.choice(run.status()["ranks"])["pid"], signal.SIGKILL)
            killed = speed_after(run, period)
            run.next_event("recovered", seen)
            bench.record("undisturbed, steps/s", undisturbed)
            bench.record("with a kill, steps/s", killed)
            bench.record("ratio", killed / undisturbed)
    tokens = SHORT_BATCH["seq_len"] * SHORT_BATCH["samples"]
    return Row(bench.name, bench.median("with a kill, steps/s") * tokens, "tokens/s", bench.median("ratio"),
               f"undisturbed: {bench.median('undisturbed, steps/s') * tokens:.0f} tokens/s")


def rescale_stall(bench):
    """Wall time of the first step after a change of the number of stages, less the new layout's median step."""
    with RunBox() as box, LiveRun(bench, box, "changes", "checkpoint.interval=0", pp=2, batch=BATCH) as run:
        run.wait_for_step(1)
        for i in range(bench.repeats(CHANGES)):
            output_of(bench.troupe, "scale", run.dir, "--pp", (3, 2, 4, 2, 3)[i], timeout=180)
            event = run.next_event("rescaled", i)
            run.wait_for_step(event["step"] + QUIET)
            usual = run.median_step_s(range(event["step"] + 1, event["step"] + QUIET + 1))
            bench.record("new layout's step, s", usual)
            bench.record("stall, s", event["stall_s"] - usual)
            record_phases(bench, event)
    return Row(bench.name, bench.median("stall, s"), "s")

"""How long a run stands still when a host is lost or left. Hosts are namespaces of this machine (host_lab.py)."""
import os, random, signal, time

from changes import SHORT_BATCH
from cluster import SMALL_MODEL, RunBox
from host_lab import HostsRun, hosts_of, wait_for_ends
from hosts import UNBOUND
from measure import Row, output_of

REPEATS = 5
SMALL = dict(model=SMALL_MODEL, batch=dict(seq_len=32, micro=1, samples=8))  # steps of some milliseconds
QUIET = 4  # steps before each loss, and after each change, that tell how long one takes


def pull_cable(bench, lab, run, rng):
    """Seconds until the next commit."""
    run.train(QUIET)
    newest = run.newest()
    usual = run.median_step_s(range(newest - QUIET + 2, newest + 1))
    bench.record("step, s", usual)
    time.sleep(rng.random() * usual)
    seen = len(run.events("recovered"))
    pulled = time.time()
    lab.order("cut", 1)
    event = run.next_event("recovered", seen)
    bench.record("cable pulled to the next commit, s", event["time"] - pulled)


def cable(bench):
    """Seconds from a pulled cable to the next commit: the worst of all."""
    rng = random.Random(bench.name)
    spare = bench.name.endswith("spare")
    for i in range(bench.repeats(REPEATS)):
        with hosts_of(3 if spare else 2) as lab, RunBox() as box:
            if not lab:
                return None
            with HostsRun(bench, box, lab, "run", *UNBOUND, f"recovery.spare_hosts={int(spare)}", slots=1, pp=2,
                          **SMALL) as run:
                pull_cable(bench, lab, run, rng)
    return Row(bench.name, max(bench.samples["cable pulled to the next commit, s"]), "s", None,
               f"3 s of it are recovery.silent; a step: {bench.median('step, s'):.3f} s", "< 4.5" if spare else "< 6")


def leave_second(bench, box, lab):
    """Leaves the second host of a run of two stages on two, and records what that costs."""
    with HostsRun(bench, box, lab, "run", *UNBOUND, slots=1, pp=2, batch=SHORT_BATCH) as run:
        run.wait_for_step(1)
        run.train(QUIET)
        output_of(*run.troupe, "scale", run.dir, "--without-host", "h1")
        left, = (event for event in run.events("host") if event["state"] == "draining")
        change = run.next_event("rescaled", 0)
        usual = run.median_step_s(range(2, left["step"] + 1))
        bench.record("step, s", usual)
        bench.record("rescale, s", change["stall_s"])
        # The steps before the change are trained meanwhile as ever; the first one after it is a part of it.
        before = change["step"] - 1 - left["step"]
        bench.record("cost, s", change["time"] - left["time"] - before * usual)
        bench.record("a step and the rescale, s", usual + change["stall_s"])


def leave(bench):
    """Seconds that training loses when a host is left, against those of a step and of the change."""
    for _ in range(bench.repeats(REPEATS)):
        with hosts_of(2) as lab, RunBox() as box:
            if not lab:
                return None
            leave_second(bench, box, lab)
    cost, allowed = bench.median("cost, s"), bench.median("a step and the rescale, s")
    return Row(bench.name, cost, "s", allowed / cost, f"a step and the rescale: {allowed:.2f} s", "ratio >= 1")


def agent_killed(bench):
    """Seconds from SIGKILL to an agent until its last worker has ended: the worst of all."""
    with hosts_of(3) as lab, RunBox() as box:
        if not lab:
            return None
        with HostsRun(bench, box, lab, "run", *UNBOUND, "recovery.spare_hosts=1", slots=1, pp=2, **SMALL) as run:
            for i in range(bench.repeats(REPEATS)):
                run.train(QUIET)
                host = next(int(rank["host"][1:]) for rank in run.status()["ranks"] if rank["host"] != "h0")
                workers = [os.pidfd_open(worker) for worker in lab.processes(host, "worker")]
                killed = time.monotonic()
                for agent in lab.processes(host, "join"):
                    os.kill(agent, signal.SIGKILL)
                wait_for_ends(workers)
                bench.record("its workers are gone, s", time.monotonic() - killed)
                run.next_event("recovered", i)
                run.wait_for_state(host, "spare")
    return Row(bench.name, max(bench.samples["its workers are gone, s"]), "s", None, None, "< 1")


def takeover(bench):
    """Seconds from the start of another launcher until it goes on with the workers of a killed one: the worst."""
    for _ in range(bench.repeats(REPEATS)):
        with hosts_of(3) as lab, RunBox() as box:
            if not lab:
                return None
            with HostsRun(bench, box, lab, "run", *UNBOUND, slots=1, pp=3, **SMALL) as run:
                run.train(QUIET)
                for launcher in lab.processes(0, "launch"):
                    os.kill(launcher, signal.SIGKILL)
                run.launch.wait()
                started = time.time()
                run.resume(1)
                told = run.wait_for("another launcher", lambda: [
                    note for note in run.events("note") if note["cause"].startswith("goes on after step")])
                bench.record("taken over, s", told[0]["time"] - started)
                run.train(QUIET)
    return Row(bench.name, max(bench.samples["taken over, s"]), "s", None, None, "< 10")

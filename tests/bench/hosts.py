"""Benchmarks of what runs on two hosts, which are namespaces of this machine (tests/hosts/lab.py)."""
import contextlib, json, os, socket, subprocess, sys

from changes import QUIET, SHORT_BATCH
from cluster import RunBox
from edges import bandwidth_options, perftest, size_of
from live_run import LiveRun
from measure import ROOT, Row, end, output_of, running, start

LAB = ROOT / "tests/hosts/lab.py"
# As a node waits over tcp, asleep, and as it hears of a peer that fails.
AS_OURS = ("-E", "sleep", "-e")
CANNOT = 77  # the exit code by which the lab says that no hosts can be made


class TwoHosts:
    """Where two ends run, each on a host of its own; for edges.perftest."""

    def __init__(self, lab):
        answer = lab.stdout.readline().split()
        if answer[:1] != ["ok"]:
            raise RuntimeError(f"{LAB} answered {answer}")
        self.first, self.second = ([
            "nsenter", f"--target={pid}", "--net", "--ipc", "--uts", "--mount", "--pid", "--"] for pid in answer[1:])
        self.address = "h0"
        self.environment = {"UCX_TLS": os.environ.get("UCX_TLS", "tcp,self"), "UCX_NET_DEVICES": "eth0"}


@contextlib.contextmanager
def two_hosts():
    """Two hosts until the context is left; None where none can be made, which standard error tells."""
    check = subprocess.run([LAB, "--check"], capture_output=True, text=True)
    if check.returncode == CANNOT:
        print(check.stdout.strip(), file=sys.stderr)
        yield None
        return
    with running(LAB, 2, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as lab:
        yield TwoHosts(lab)


def edge_between(bench, hosts, size, seconds):
    """Payload bytes per second of an edge from the first host to the second."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    started = []
    try:
        for rank, (there, own) in enumerate(zip((hosts.first, hosts.second), ends)):
            environment = {**hosts.environment, "EDGE_BENCH_SOCKET": str(own.fileno()), "EDGE_BENCH_RANK": str(rank)}
            started.append(start(*there, bench.program("edge_bench"), "bandwidth", size, seconds, env=environment,
                                 pass_fds=[own.fileno()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            own.close()
        out, error = started[1].communicate(timeout=120)
    finally:
        for process in started:
            end(process)
        for own in ends:
            own.close()
    if not out:
        raise RuntimeError(f"edge_bench printed nothing: {error[-2000:]}")
    return json.loads(out)["bytes_per_s"]


def edge(bench):
    """Payload bytes per second that a stage receives from one on another host, against ucp_am_bw there."""
    size, seconds = size_of(bench), "0.2" if bench.smoke else "1"
    with two_hosts() as hosts:
        if not hosts:
            return None
        for _ in range(bench.repeats(11)):
            ours = edge_between(bench, hosts, size, seconds)
            peer = perftest(*bandwidth_options(size), *AS_OURS, where=hosts)[4] * 2**20
            bench.record("ours, GB/s", ours / 1e9)
            bench.record("ucx_perftest, GB/s", peer / 1e9)
    ours, peer = bench.median("ours, GB/s"), bench.median("ucx_perftest, GB/s")
    return Row(bench.name, ours, "GB/s", ours / peer, f"ucx_perftest -t ucp_am_bw {' '.join(AS_OURS)}: {peer:.2f} GB/s")


def leave_second(bench, hosts, box):
    """Leaves the second host of a run of two stages on two, and records what that costs."""
    secret = box.dir / "secret"
    secret.write_text("of a benchmark")
    secret.chmod(0o400)
    meeting = ("--rendezvous", "h0:29600", "--token-file", secret)
    with LiveRun(bench, box, "leave", "checkpoint.interval=0", pp=2, batch=SHORT_BATCH, where=hosts.first,
                 options=("--wait-for-hosts", 2, *meeting)) as run, \
            running(*hosts.second, bench.troupe, "join", *meeting, stderr=subprocess.PIPE):
        run.wait_for_step(1)
        run.train(QUIET)
        output_of(*hosts.first, bench.troupe, "scale", run.dir, "--without-host", "h1")
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
    with two_hosts() as hosts:
        if not hosts:
            return None
        for _ in range(bench.repeats(5)):
            with RunBox() as box:
                leave_second(bench, hosts, box)
    cost, allowed = bench.median("cost, s"), bench.median("a step and the rescale, s")
    return Row(bench.name, cost, "s", allowed / cost, f"a step and the rescale: {allowed:.2f} s")

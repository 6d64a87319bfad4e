"""Benchmarks of what runs on two hosts, which are namespaces of this machine (host_lab.py)."""
import json, os, re, socket, statistics, subprocess

from cluster import MICRO, SEQ_LEN, RunBox, model_of, samples_of
from edges import bandwidth_options, perftest, size_of
from host_lab import HostsRun, hostfile, hosts_of
from measure import Row, end, json_of, output_of, start

# As a node waits over tcp, asleep, and as it hears of a peer that fails.
AS_OURS = ("-E", "sleep", "-e")
# UCX as a node sets it for tcp (transport/ucx): no copy is spared, for a defect of UCX; much goes by rendezvous.
NODE_SETTINGS = {"UCX_ZCOPY_THRESH": "inf", "UCX_RNDV_THRESH": "32k", "UCX_TCP_TX_SEG_SIZE": "64k"}
# Each host would bind its rank to the first core of what is one machine.
UNBOUND = ("cluster.pin=false", "cluster.spin=false", "checkpoint.interval=0")
BATCH = dict(seq_len=88, micro=1, samples=2)  # steps of about half a second


class TwoHosts:
    """Where two ends run, each on a host of its own; for edges.perftest."""

    def __init__(self, lab, **settings):
        self.first, self.second = lab.on(0), lab.on(1)
        self.address = "h0"
        self.environment = {"UCX_TLS": os.environ.get("UCX_TLS", "tcp,self"), "UCX_NET_DEVICES": "eth0", **settings}


class Ends:
    """The two processes of edge_bench, each on a host, ended on leaving the context."""

    def __init__(self, bench, hosts, *arguments):
        self.sockets = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.processes = []
        for rank, (there, own) in enumerate(zip((hosts.first, hosts.second), self.sockets)):
            environment = {**hosts.environment, "EDGE_BENCH_SOCKET": str(own.fileno()), "EDGE_BENCH_RANK": str(rank)}
            self.processes.append(start(*there, bench.program("edge_bench"), *arguments, env=environment,
                                        pass_fds=[own.fileno()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True))
            own.close()

    def __enter__(self):
        return self.processes

    def __exit__(self, *_):
        for process in self.processes:
            end(process)


def told_by(process):
    """The JSON that a process of edge_bench prints at its end."""
    out, error = process.communicate(timeout=120)
    if not out:
        raise RuntimeError(f"edge_bench printed nothing: {error[-2000:]}")
    return json.loads(out.splitlines()[-1])


def edge(bench):
    """Payload bytes per second that a stage receives from one on another host, against ucp_am_bw there with the same
    settings. As there nobody writes the payload: both cores carry bytes, and writing would take its time from that."""
    with_defaults = "ucx_perftest with UCX's defaults, GB/s"
    size, seconds = size_of(bench), "0.2" if bench.smoke else "1"
    with hosts_of(2) as lab:
        if not lab:
            return None
        for _ in range(bench.repeats(15)):
            with Ends(bench, TwoHosts(lab), "transfer", size, seconds) as (_, receiver):
                ours = told_by(receiver)["bytes_per_s"]
            peer, defaults = (perftest(*bandwidth_options(size), *AS_OURS, where=where)[4] * 2**20
                              for where in (TwoHosts(lab, **NODE_SETTINGS), TwoHosts(lab)))
            bench.record("ours, GB/s", ours / 1e9)
            bench.record("ucx_perftest, GB/s", peer / 1e9)
            bench.record(with_defaults, defaults / 1e9)
            bench.record("ratio", ours / peer)
    peer, defaults = bench.median("ucx_perftest, GB/s"), bench.median(with_defaults)
    return Row(bench.name, bench.median("ours, GB/s"), "GB/s", bench.median("ratio"),
               f"ucx_perftest -t ucp_am_bw {' '.join(AS_OURS)}: {peer:.2f} GB/s, with UCX's defaults {defaults:.2f}",
               "ratio >= 0.9")


def step_s(bench, box, lab, name, *words):
    """Median time of a step of the measured model in two stages, launched on h0 with more words."""
    manifest = box.manifest(name, model_of(bench), steps=2 if bench.smoke else 6, seq_len=SEQ_LEN, micro=MICRO,
                            samples=samples_of(bench), pp=2, threads=1)
    sets = [word for setting in UNBOUND for word in ("--set", setting)]
    output_of(*lab.on(0), bench.troupe, "launch", manifest, *sets, *words, env={"UCX_TLS": "tcp,self"}, timeout=300)
    return statistics.median(row["step_s"] for row in box.metrics(name)[1:])


def step(bench):
    """A step of two stages on two hosts, against one on one host over tcp, in turn."""
    with hosts_of(2) as lab, RunBox() as box:
        if not lab:
            return None
        lab.order("ssh")
        over_hosts = hostfile(box, lab, 1)
        for i in range(bench.repeats(5)):
            one = step_s(bench, box, lab, f"one-{i}")
            two = step_s(bench, box, lab, f"two-{i}", *over_hosts)
            bench.record("one host, s", one)
            bench.record("two hosts, s", two)
            bench.record("ratio", one / two)
    return Row(bench.name, bench.median("two hosts, s"), "s", bench.median("ratio"),
               f"one host over tcp: {bench.median('one host, s'):.3f} s", "ratio >= 0.95")


def unreachable(bench):
    """Milliseconds for which the data plane of a process stands still at most when it connects to a peer whose cable is
    pulled: the longest of all."""
    with hosts_of(2) as lab:
        if not lab:
            return None
        for _ in range(bench.repeats(9)):
            with Ends(bench, TwoHosts(lab), "unreachable", "eth0", "1" if bench.smoke else "5") as (sender, _):
                sender.stdout.readline()  # it has the address of the other
                lab.order("cut", 1)
                print(file=sender.stdin, flush=True)
                told = told_by(sender)
            lab.order("heal", 1)
            bench.record("connect, ms", told["connect_ms"])
            bench.record("longest wait of a call, ms", told["blocked_ms"])
    worst = max(bench.samples["connect, ms"] + bench.samples["longest wait of a call, ms"])
    return Row(bench.name, worst, "ms", None, None, "< 10")


def bytes_of_agent(lab, run):
    """What the agent of h1 has sent and received on its connection to the launcher."""
    port = json.loads((run.dir / "join.json").read_text())["port"]
    told = output_of(*lab.on(1), "ss", "--tcp", "--info", "--no-header", "--oneline", "dst", f":{port}")
    return [int(re.search(rf"bytes_{what}:(\d+)", told)[1]) for what in ("acked", "received")]


def control(bench):
    """Bytes on the connection of an agent that has one rank, a step of about half a second: up, and down."""
    steps = 3 if bench.smoke else 60
    with hosts_of(2) as lab, RunBox() as box:
        if not lab:
            return None
        with HostsRun(bench, box, lab, "control", *UNBOUND, slots=1, pp=2, batch=BATCH) as run:
            run.train(1 if bench.smoke else 12)  # the first steps also send the times of their actions
            first, before = run.newest(), bytes_of_agent(lab, run)
            run.train(steps)
            made = run.newest() - first
            up, down = ((now - then) / made for now, then in zip(bytes_of_agent(lab, run), before))
            bench.record("step, s", run.median_step_s(range(first, first + made)))
            bench.record("up, bytes", up)
            bench.record("down, bytes", down)
    return Row(bench.name, up, "bytes", None, f"down: {down:.0f} bytes; a step: {bench.median('step, s'):.2f} s",
               "<= 1024 up, <= 512 down")


def join(bench):
    """Seconds in which agents join a launcher with TLS, all at once and on its own machine."""
    agents = 20 if bench.smoke else 1000
    for _ in range(bench.repeats(3)):
        told = json_of(bench.program("join_bench"), agents, timeout=300)
        bench.record("all have joined, s", told["join_s"])
        bench.record("processor time, s", told["cpu_s"])
    return Row(bench.name, bench.median("all have joined, s"), "s", None,
               f"{agents} agents; {bench.median('processor time, s'):.1f} s of the launcher's processor time", "< 10")

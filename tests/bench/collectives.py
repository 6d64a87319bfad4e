"""Benchmarks of collectives between processes of one host, against UCX's own measuring program and Gloo."""
import importlib.util, pathlib, sys

from edges import TRANSPORTS, perftest
from measure import Row, json_of, output_of

PEER_MESSAGE = 4 << 20  # of ucp_am_bw, as for edge_bandwidth_4MiB
SIZES = {"KiB": 1 << 10, "MiB": 1 << 20}


def shape_of(bench):
    """(ranks, bytes) of a name such as all_reduce_2_16MiB."""
    ranks, size = bench.name.split("_")[2:4]
    return int(ranks), int(size[:-3]) * SIZES[size[-3:]]


def measured(bench, what, ranks, size, rounds):
    return json_of(bench.program("collective_bench"), what, ranks, size, rounds, env=TRANSPORTS)


def latency(bench):
    """Microseconds of a small all-reduce, all members polling."""
    ranks, size = shape_of(bench)
    for _ in range(bench.repeats(9)):
        seconds = measured(bench, "time", ranks, size, 100 if bench.smoke else 20000)["seconds"]
        bench.record("ours, us", seconds * 1e6)
    return Row(bench.name, bench.median("ours, us"), "us")


def bandwidth(bench):
    """Payload bytes over the time of an all-reduce, against ucp_am_bw."""
    ranks, size = shape_of(bench)
    rounds, messages = (2, 20) if bench.smoke else (40, 500)
    for _ in range(bench.repeats(11)):
        seconds = measured(bench, "time", ranks, size, rounds)["seconds"]
        bench.record("ours, GB/s", size / seconds / 1e9)
        peer = perftest("-t", "ucp_am_bw", "-s", str(PEER_MESSAGE), "-n", str(messages))[4] * 2**20
        bench.record("ucx_perftest, GB/s", peer / 1e9)
    ours, peer = bench.median("ours, GB/s"), bench.median("ucx_perftest, GB/s")
    return Row(bench.name, ours, "GB/s", ours / peer, f"ucx_perftest -t ucp_am_bw: {peer:.2f} GB/s")


def gloo(bench):
    """The same against Gloo's all-reduce, if the python3 that runs this has torch."""
    if importlib.util.find_spec("torch") is None:
        print(f"{bench.name}: left out: {sys.executable} has no torch, which brings Gloo", file=sys.stderr)
        return None
    ranks, size = shape_of(bench)
    rounds = 2 if bench.smoke else 40
    script = pathlib.Path(__file__).with_name("gloo_peer.py")
    for _ in range(bench.repeats(9)):
        ours = measured(bench, "time", ranks, size, rounds)["seconds"]
        theirs = float(output_of(sys.executable, script, ranks, size, rounds))
        bench.record("ours, GB/s", size / ours / 1e9)
        bench.record("gloo, GB/s", size / theirs / 1e9)
    ours, peer = bench.median("ours, GB/s"), bench.median("gloo, GB/s")
    return Row(bench.name, ours, "GB/s", ours / peer, f"Gloo over loopback: {peer:.2f} GB/s")


def hidden(bench):
    """The share of an all-reduce's time that computation beside it hides."""
    for _ in range(bench.repeats(9)):
        times = measured(bench, "hidden", 2, 16 << 20, 2 if bench.smoke else 20)
        bench.record("all-reduce alone, s", times["alone"])
        bench.record("computation alone, s", times["compute"])
        bench.record("both, s", times["both"])
        bench.record("share hidden", 1 - (times["both"] - times["compute"]) / times["alone"])
    return Row(bench.name, bench.median("share hidden"), "share")


def sum_error(bench):
    """The error of a sum over many members that send bfloat16, against a ring that adds in bfloat16."""
    members = int(bench.name.split("_")[1])
    for seed in range(bench.repeats(9)):
        errors = json_of(bench.program("sum_error"), members, seed)
        bench.record("in float32", errors["float32"])
        bench.record("in float32, rounded once", errors["rounded"])
        bench.record("bfloat16 ring", errors["ring"])
    ours, peer = bench.median("in float32"), bench.median("bfloat16 ring")
    return Row(bench.name, ours, "relative", peer / ours, f"bfloat16 ring: {peer:.3g}")

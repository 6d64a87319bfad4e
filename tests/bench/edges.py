"""Benchmarks of an edge between two stages' processes, against UCX's own measuring program on the same transports."""
import os, re, socket, subprocess, time

from measure import Row, json_of, running

# Shared memory, as between two ranks of one host; a UCX_TLS in the environment holds for both sides alike.
TRANSPORTS = {"UCX_TLS": os.environ.get("UCX_TLS", "shm,self")}
LATENCY_BYTES = 4096


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class OneHost:
    """Where the two ends of what is measured run: the words before a command there, and where the first is found."""
    first, second, address, environment = (), (), "127.0.0.1", TRANSPORTS


def perftest(*options, where=OneHost):
    """Runs ucx_perftest between two processes. Returns the columns of its final line: us per message (median,
    average, overall), MiB/s (average, overall), messages/s (average, overall)."""
    port = str(free_port())
    with running(*where.first, "ucx_perftest", "-p", port, *options, env=where.environment, stdout=subprocess.DEVNULL,
                 stderr=subprocess.DEVNULL):
        return perftest_client([*where.second, "ucx_perftest", where.address, "-p", port, "-f", *options],
                               {**os.environ, **where.environment})


def perftest_client(command, environment):
    deadline = time.monotonic() + 10
    while True:
        client = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        numbers = re.findall(r"^ +\d+ +((?:[\d.]+ +){6}[\d.]+)\s*$", client.stdout, re.MULTILINE)
        if numbers:
            return [float(x) for x in numbers[-1].split()]
        if time.monotonic() > deadline:  # before the deadline the server may not be listening yet
            raise RuntimeError(f"ucx_perftest printed no result: {client.stdout[-500:]}{client.stderr[-500:]}")
        time.sleep(0.1)


def size_of(bench):
    """Bytes of a message, which a benchmark's name ends with."""
    return int(bench.name.rsplit("_", 1)[1].removesuffix("MiB")) << 20


def bandwidth_options(size):
    """What ucx_perftest measures beside an edge."""
    return "-t", "ucp_am_bw", "-s", str(size), "-n", str((2 << 30) // size)


def bandwidth(bench):
    """Payload bytes per second that one stage receives from another, against ucp_am_bw."""
    size, seconds = size_of(bench), "0.2" if bench.smoke else "1"
    for _ in range(bench.repeats(11)):
        ours = json_of(bench.program("edge_bench"), "bandwidth", size, seconds, env=TRANSPORTS)["bytes_per_s"]
        peer = perftest(*bandwidth_options(size))[4] * 2**20
        bench.record("ours, GB/s", ours / 1e9)
        bench.record("ucx_perftest, GB/s", peer / 1e9)
    ours, peer = bench.median("ours, GB/s"), bench.median("ucx_perftest, GB/s")
    return Row(bench.name, ours, "GB/s", ours / peer, f"ucx_perftest -t ucp_am_bw: {peer:.2f} GB/s")


def bridge(bench):
    """Payload bytes per second that a stage receives in pieces from two ranks, against one edge from one of them that
    carries the same tensors."""
    size, messages = 4 << 20, 20 if bench.smoke else 300
    rates = json_of(bench.program("bridge_bench"), size, messages, bench.repeats(15), env=TRANSPORTS)
    for ours, peer in zip(rates["fan_in"], rates["plain"]):
        bench.record("of two senders, GB/s", ours / 1e9)
        bench.record("of one, GB/s", peer / 1e9)
        bench.record("ratio", ours / peer)
    value, peer = bench.median("of two senders, GB/s"), bench.median("of one, GB/s")
    return Row(bench.name, value, "GB/s", bench.median("ratio"), f"one edge with as many bytes: {peer:.2f} GB/s",
               "ratio >= 0.9")


def latency(bench):
    """One way of 4 KiB between two stages, microseconds, against ucp_am_lat in the same way of waiting."""
    sleeping = bench.name.endswith("sleeping")
    rounds = 200 if bench.smoke else 20000
    wait = ["-E", "sleep"] if sleeping else []
    for _ in range(bench.repeats(9)):
        ours = json_of(bench.program("edge_bench"), "latency", "sleep" if sleeping else "spin", rounds,
                       env=TRANSPORTS)["one_way_us"]
        bench.record("ours, us", ours)
        peer = perftest("-t", "ucp_am_lat", "-s", str(LATENCY_BYTES), "-n", str(rounds), *wait)[0]
        bench.record("ucx_perftest, us", peer)
    ours, peer = bench.median("ours, us"), bench.median("ucx_perftest, us")
    return Row(bench.name, ours, "us", peer / ours, f"{' '.join(['ucx_perftest -t ucp_am_lat', *wait])}: {peer:.2f} us")

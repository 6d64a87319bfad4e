"""Benchmarks of a GPU: kernels over the bandwidth of a copy, a step over its products alone and over PyTorch."""
import functools, importlib.util, pathlib, subprocess, sys

from measure import Row, Worker, json_of

SIZES = {"1b5": "1.45 billion parameters", "7b": "4 layers as of 7 billion parameters"}
SEQUENCES = (2048, 4096)
KERNELS = ("rms_norm", "rms_norm_backward", "embedding", "embedding_backward", "swiglu", "swiglu_backward",
           "cross_entropy", "adamw", "sums_of_squares")


def has_gpu(bench):
    """Whether the machine has a GPU; the program ends with 77 where none is."""
    done = subprocess.run([bench.program("gpu_bench"), "probe"], capture_output=True, text=True)
    return done.returncode != 77


@functools.cache
def kernel_times(program):
    return {row["name"]: row for row in json_of(program, "kernels", timeout=300)}


def kernel(bench):
    """Bytes per second that an op must move, over those of a copy within the GPU, measured in the same process."""
    times = kernel_times(bench.program("gpu_bench"))
    rate = {name: row["bytes"] / row["seconds"] for name, row in times.items()}
    name = bench.name.removeprefix("gpu_")
    return Row(bench.name, rate[name] / 1e9, "GB/s", rate[name] / rate["copy"], f"copy: {rate['copy'] / 1e9:.0f} GB/s")


def worker_of(bench, size, seq_len, deterministic):
    return Worker(bench.program("gpu_bench"), "step", size, str(seq_len), "true" if deterministic else "false")


def step_of(bench):
    """(size, sequence length, whether deterministic) of a benchmark's name, as gpu_step_7b_4096_any_order."""
    size, seq_len = bench.name.split("_")[2:4]
    return size, int(seq_len), not bench.name.endswith("any_order")


def products(bench):
    """Time of the linear layers' products alone by cuBLASLt, over the time of the step."""
    with worker_of(bench, *step_of(bench)) as ours:
        flop, tokens = map(float, ours.ready.split()[1:])
        for _ in range(bench.repeats(20)):
            alone, step = ours.ask("products"), ours.ask("step")
            bench.record("products alone, s", alone)
            bench.record("step, s", step)
            bench.record("ratio", alone / step)
    alone, step = bench.median("products alone, s"), bench.median("step, s")
    return Row(bench.name, flop / step / 1e12, "TFLOP/s", bench.median("ratio"),
               f"cuBLASLt alone: {flop / alone / 1e12:.0f} TFLOP/s, {tokens / step:.0f} tokens/s, "
               f"{SIZES[step_of(bench)[0]]}")


def torch(bench):
    """Tokens/s of the step against PyTorch's, compiled, with the faster of its attentions."""
    if importlib.util.find_spec("torch") is None:
        print(f"{bench.name}: left out: {sys.executable} has no torch", file=sys.stderr)
        return None
    size, seq_len, deterministic = step_of(bench)
    script = str(pathlib.Path(__file__).with_name("gpu_torch_peer.py"))
    best = None
    for attention in ("flash", "cudnn"):
        try:
            with Worker(sys.executable, script, size, str(seq_len), attention, str(int(deterministic))) as peer:
                for _ in range(bench.repeats(20)):
                    bench.record(f"PyTorch {attention}, s", peer.ask("step"))
                tokens, version = float(peer.ready.split()[1]), " ".join(peer.ready.split()[2:])
        except RuntimeError as error:  # an attention that PyTorch does not have in a deterministic form
            reason = str(error).splitlines()[-1]
            print(f"{bench.name}: without PyTorch's {attention} attention: {reason}", file=sys.stderr)
            continue
        seconds = bench.median(f"PyTorch {attention}, s")
        best = min(best or (seconds, attention), (seconds, attention))
    if best is None:
        return None
    with worker_of(bench, size, seq_len, deterministic) as ours:
        for _ in range(bench.repeats(20)):
            bench.record("step, s", ours.ask("step"))
    step = bench.median("step, s")
    return Row(bench.name, tokens / step, "tokens/s", best[0] / step,
               f"{version}, {best[1]}: {tokens / best[0]:.0f} tokens/s")


def table():
    """All benchmarks of a GPU by name."""
    rows = {f"gpu_{name}": kernel for name in KERNELS}
    for what, measure in (("step", products), ("torch", torch)):
        for size in SIZES:
            for seq_len in SEQUENCES:
                rows[f"gpu_{what}_{size}_{seq_len}"] = measure
                rows[f"gpu_{what}_{size}_{seq_len}_any_order"] = measure
    return rows

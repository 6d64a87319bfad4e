"""Benchmarks of one rank's training step: against oneDNN's products alone, and against PyTorch."""
import contextlib, importlib.util, pathlib, sys

from measure import Row, Worker

THREADS = "2"
BILLIONS = 27.4e6 / 1e9  # parameters of the model
TOKENS = 16 * 256  # of a step: global samples x sequence length
DTYPES = {"f32": "float32", "bf16": "bfloat16"}


def step_bench(bench):
    """The words that start it; in a smoke test a step has one microbatch."""
    return bench.program("step_bench"), dtype_of(bench), THREADS, *(["4"] if bench.smoke else [])


def dtype_of(bench):
    return DTYPES[bench.name.rsplit("_", 1)[1]]


def speed_of_light(bench):
    """Time of the step's matrix products by oneDNN alone, over the time of the step."""
    with Worker(*step_bench(bench)) as ours:
        gflop = float(ours.ready.split()[1])
        for _ in range(bench.repeats(9)):
            products, step = ours.ask("products"), ours.ask("step")
            bench.record("products alone, s", products)
            bench.record("step, s", step)
            bench.record("ratio", products / step)
    products = bench.median("products alone, s")
    return Row(bench.name, gflop / bench.median("step, s"), "GFLOP/s", bench.median("ratio"),
               f"oneDNN alone: {gflop:.1f} GFLOP in {products:.3f} s, {gflop / products:.0f} GFLOP/s")


def torch(bench):
    """Tokens/s of the step against the same step compiled by PyTorch, if the python3 that runs this has it."""
    if importlib.util.find_spec("torch") is None:
        print(f"{bench.name}: left out: {sys.executable} has no torch", file=sys.stderr)
        return None
    peer_script = str(pathlib.Path(__file__).with_name("torch_peer.py"))
    with Worker(sys.executable, peer_script, dtype_of(bench), "--threads", THREADS) as peer, \
         Worker(*step_bench(bench)) as ours:
        for _ in range(bench.repeats(7)):
            theirs, step = peer.ask("step"), ours.ask("step")
            bench.record("PyTorch, tokens/s", TOKENS / theirs)
            bench.record("ours, tokens/s", TOKENS / step)
            bench.record("ratio", theirs / step)
    return Row(bench.name, bench.median("ours, tokens/s"), "tokens/s", bench.median("ratio"),
               f"{peer.ready.removeprefix('ready ')}: {bench.median('PyTorch, tokens/s'):.0f} tokens/s")


def family(bench):
    """Tokens/s of the step of another kind of model, against Llama's of equal sizes."""
    samples = "4" if bench.smoke else "16"
    words = bench.program("step_bench"), "float32", THREADS, samples
    with Worker(*words, "llama") as llama, Worker(*words, bench.name.removeprefix("family_")) as ours:
        for _ in range(bench.repeats(9)):
            theirs, step = llama.ask("step"), ours.ask("step")
            bench.record("Llama, tokens/s", int(samples) * 256 / theirs)
            bench.record("ours, tokens/s", int(samples) * 256 / step)
            bench.record("ratio", theirs / step)
    return Row(bench.name, bench.median("ours, tokens/s"), "tokens/s", bench.median("ratio"),
               f"Llama of equal sizes: {bench.median('Llama, tokens/s'):.0f} tokens/s", "at least 0.95")


def lora(bench):
    """Tokens/s of the step of adapters of rank 8 on every linear layer, against that of the whole model."""
    samples = "4" if bench.smoke else "16"
    words = bench.program("step_bench"), "float32", THREADS, samples
    with Worker(*words, "llama") as whole, Worker(*words, "lora") as ours:
        for _ in range(bench.repeats(9)):
            theirs, step = whole.ask("step"), ours.ask("step")
            bench.record("the whole model, tokens/s", int(samples) * 256 / theirs)
            bench.record("ours, tokens/s", int(samples) * 256 / step)
            bench.record("ratio", theirs / step)
    return Row(bench.name, bench.median("ours, tokens/s"), "tokens/s", bench.median("ratio"),
               f"the whole model: {bench.median('the whole model, tokens/s'):.0f} tokens/s", "at least 1.3")


def moe_products(bench):
    """Time of the products of a layer's experts by oneDNN alone, an expert at a time, over that of grouped ones."""
    words = bench.program("expert_bench"), "float32", THREADS, *(["64"] if bench.smoke else [])
    with Worker(*words) as ours:
        gflop = float(ours.ready.split()[1])
        for _ in range(bench.repeats(25)):
            products, grouped = ours.ask("products"), ours.ask("grouped")
            bench.record("products alone, s", products)
            bench.record("grouped, s", grouped)
            bench.record("ratio", products / grouped)
    products = bench.median("products alone, s")
    return Row(bench.name, gflop / bench.median("grouped, s"), "GFLOP/s", bench.median("ratio"),
               f"oneDNN alone: {gflop:.1f} GFLOP in {products:.3f} s, {gflop / products:.0f} GFLOP/s",
               "at least 0.85")


def initial_weights(bench):
    """Seconds that the initial weights of a billion parameters take, against torch.nn.init.normal_ of the same shapes,
    if the python3 that runs this has torch."""
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(Worker(bench.program("step_bench"), "float32", THREADS))
        peer = None
        if importlib.util.find_spec("torch") is not None:
            script = str(pathlib.Path(__file__).with_name("initial_weights_peer.py"))
            peer = stack.enter_context(Worker(sys.executable, script, THREADS))
        for _ in range(bench.repeats(9)):
            drawn = ours.ask("weights")
            bench.record("ours, s", drawn / BILLIONS)
            if peer:
                theirs = peer.ask("weights")
                bench.record("PyTorch, s", theirs / BILLIONS)
                bench.record("ratio", theirs / drawn)
    seconds = bench.median("ours, s")
    if not peer:
        return Row(bench.name, seconds, "s")
    return Row(bench.name, seconds, "s", bench.median("ratio"),
               f"{peer.ready.removeprefix('ready ')}, normal_: {bench.median('PyTorch, s'):.2f} s")

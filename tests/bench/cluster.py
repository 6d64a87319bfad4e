"""Benchmarks of the whole program: pipelines against one process, start-up, and the interpreter's cost per action."""
import json, pathlib, random, shutil, statistics, subprocess, tempfile, time

from measure import Row, json_of, output_of, running

MEASURED_MODEL = """[model]
hidden_size = 512
intermediate_size = 1376
num_hidden_layers = 8
num_attention_heads = 8
num_key_value_heads = 4
vocab_size = 4096
tie_word_embeddings = false
dtype = "float32"
"""
SMALL_MODEL = """[model]
hidden_size = 64
intermediate_size = 128
num_hidden_layers = 4
num_attention_heads = 4
num_key_value_heads = 2
vocab_size = 256
tie_word_embeddings = false
dtype = "float32"
"""
MICRO, SEQ_LEN = 4, 256


def model_of(bench):
    """The measured model; a small one where it is only tried that benchmarks run."""
    return SMALL_MODEL if bench.smoke else MEASURED_MODEL


def samples_of(bench):
    """Samples of a step of the measured model."""
    return 2 * MICRO if bench.smoke else 8 * MICRO


class RunBox:
    """A temporary folder with a text and runs on it, removed at the end."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="troupe-bench-"))
        self.text = self.dir / "text.txt"
        self.text.write_bytes(random.Random(1).randbytes(500_000).translate(bytes(32 + i % 95 for i in range(256))))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir, ignore_errors=True)

    def manifest(self, name, model, *, steps, seq_len, micro, samples, pp, threads):
        path = self.dir / f"{name}.toml"
        path.write_text(f"""{model}
[run]
name = "{name}"
seed = 1
max_steps = {steps}
dir = "{self.dir / name}"
[data]
files = ["{self.text}"]
tokenizer = "bytes"
[batch]
seq_len = {seq_len}
micro = {micro}
global = {samples}
[mesh]
pp = {pp}
[cluster]
threads = {threads}
""")
        return path

    def metrics(self, name):
        path = self.dir / name / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [row for row in map(parsed, lines) if row is not None and "loss" in row]


def parsed(line):
    """The JSON of a line; None for one that is still being written."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def tokens_per_s(bench, box, pp, threads, round_number, *settings):
    """Steady speed of a run of the measured model: the median of its steps except the first, which warms up."""
    name = f"pp{pp}-{len(settings)}-{round_number}"
    steps = 2 if bench.smoke else 5
    manifest = box.manifest(name, model_of(bench), steps=steps, seq_len=SEQ_LEN, micro=MICRO, samples=samples_of(bench),
                            pp=pp, threads=threads)
    sets = [word for setting in settings for word in ("--set", setting)]
    output_of(bench.troupe, "launch", manifest, *sets, timeout=300)
    return statistics.median(row["tokens_per_s"] for row in box.metrics(name)[1:])


def pipeline_two(bench):
    """Two stages of one thread each, over one process of two threads less the bubble that the schedule must have."""
    microbatches = samples_of(bench) // MICRO
    with RunBox() as box:
        for i in range(bench.repeats(3)):
            bubble = json_of(bench.program("pipeline_bubble"), 2, microbatches, bench.repeats(5))["bubble"]
            one, two = tokens_per_s(bench, box, 1, 2, i), tokens_per_s(bench, box, 2, 1, i)
            bench.record("bubble", bubble)
            bench.record("pp=1, tokens/s", one)
            bench.record("pp=2, tokens/s", two)
            bench.record("ratio", two / (one * (1 - bubble)))
    return Row(bench.name, bench.median("pp=2, tokens/s"), "tokens/s", bench.median("ratio"),
               f"one process: {bench.median('pp=1, tokens/s'):.0f} tokens/s; bubble {bench.median('bubble'):.3f}")


def tensor_two(bench):
    """Two shards of one thread each, sequence parallel, over one process of two threads."""
    with RunBox() as box:
        for i in range(bench.repeats(3)):
            one = tokens_per_s(bench, box, 1, 2, i)
            two = tokens_per_s(bench, box, 1, 1, i, "mesh.tp=2", "mesh.sequence_parallel=true")
            waits = [row["stages"][0]["collective_share"] for row in box.metrics(f"pp1-2-{i}")[1:]]
            bench.record("one process, tokens/s", one)
            bench.record("two shards, tokens/s", two)
            bench.record("share of a step that shards wait", statistics.median(waits))
            bench.record("ratio", two / one)
    return Row(bench.name, bench.median("two shards, tokens/s"), "tokens/s", bench.median("ratio"),
               f"one process: {bench.median('one process, tokens/s'):.0f} tokens/s")


def first_step_s(bench, box, name):
    """Seconds from the start of the program to its first line of metrics."""
    manifest = box.manifest(name, SMALL_MODEL, steps=1, seq_len=32, micro=1, samples=8, pp=4, threads=1)
    begin = time.monotonic()
    with running(bench.troupe, "launch", manifest, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
        while not box.metrics(name):
            if run.poll() is not None and not box.metrics(name):
                raise RuntimeError(f"troupe launch: exit {run.returncode}: {run.stderr.read().decode()[-2000:]}")
            time.sleep(0.002)
        taken = time.monotonic() - begin
        run.wait(60)
        return taken


def launch_to_first_action(bench):
    """Start of four ranks, from exec until the first step of a small model is written down, by which time the last
    rank has begun its first action."""
    with RunBox() as box:
        for i in range(bench.repeats(9)):
            bench.record("first step, s", first_step_s(bench, box, f"start-{i}"))
    return Row(bench.name, bench.median("first step, s"), "s")


def action_overhead(bench):
    """Microseconds that the interpreter and its channel add to an action whose computation takes none."""
    for _ in range(bench.repeats(9)):
        bench.record("us", json_of(bench.program("action_overhead"), 10 if bench.smoke else 2000)["us_per_action"])
    return Row(bench.name, bench.median("us"), "us")

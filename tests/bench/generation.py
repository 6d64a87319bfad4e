"""Benchmarks of `troupe generate` against transformers with the same checkpoint, prompts and threads."""
import importlib.util, pathlib, random, sys

from cluster import RunBox, model_of
from measure import Row, Worker, json_of, output_of

THREADS, PROMPTS, PROMPT_TOKENS, DECODED = 2, 8, 128, 64


def checkpoint(bench, box):
    """A checkpoint of the measured model, whose tokens are bytes."""
    output_of(bench.troupe, "launch", box.manifest("run", model_of(bench), steps=1, seq_len=256, micro=1, samples=1,
                                                   pp=1, threads=THREADS), timeout=300)
    return box.dir / "run/checkpoints/step-1"


def rates(bench):
    """{"prefill": (ours, theirs), "decode": (ours, theirs)} tokens/s, measured alternately."""
    rng, peer_script = random.Random(1), str(pathlib.Path(__file__).with_name("generation_peer.py"))
    with RunBox() as box:
        saved, prompts = checkpoint(bench, box), box.dir / "prompts.txt"
        prompts.write_text("".join("".join(chr(rng.randrange(97, 123)) for _ in range(PROMPT_TOKENS)) + "\n"
                                   for _ in range(PROMPTS)))
        with Worker(sys.executable, peer_script, str(saved), str(prompts), str(DECODED), str(THREADS)) as peer:
            for _ in range(bench.repeats(5)):
                ours = json_of(bench.troupe, "generate", saved, "--prompt-file", prompts, "--tokens", DECODED + 1,
                               "--temperature", 0, "--threads", THREADS, "--json")
                for what, tokens in (("prefill", PROMPTS * PROMPT_TOKENS), ("decode", PROMPTS * DECODED)):
                    bench.record(f"{what}, ours, tokens/s", ours[f"{what}_tokens_per_s"])
                    bench.record(f"{what}, transformers, tokens/s", tokens / peer.ask(what))
        return peer.ready.removeprefix("ready ")


def generation(bench):
    """Tokens/s of 8 prompts of 128 tokens at once, or of the 64 tokens after each of them."""
    if importlib.util.find_spec("transformers") is None:
        print(f"{bench.name}: left out: {sys.executable} has no transformers", file=sys.stderr)
        return None
    peer, what = rates(bench), bench.name.split("_")[1]
    ours, theirs = (bench.median(f"{what}, {who}, tokens/s") for who in ("ours", "transformers"))
    return Row(bench.name, ours, "tokens/s", ours / theirs, f"{peer}: {theirs:.0f} tokens/s")

"""Benchmark of encoding text, against the library that made the tokenizer's format."""
import importlib.util, json, os, pathlib, random, subprocess, sys, tempfile, time

from measure import Row

WORDS, DOCUMENTS, DOCUMENT_WORDS = 30_000, 6_000, 350
# How Llama 3 divides a text into words.
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")


def documents(count):
    """Texts of random words, some of which are much more frequent than others."""
    chance = random.Random(5)
    words = ["".join(chance.choice("etaoinshrdlucmfw") for _ in range(chance.randint(2, 11))) for _ in range(WORDS)]
    word = lambda: words[min(int(chance.paretovariate(0.7)), WORDS - 1)]
    return [" ".join(word() for _ in range(DOCUMENT_WORDS)) for _ in range(count)]


def byte_level(path, texts):
    """A tokenizer.json of the kind of Llama 3."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers as pre, trainers
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre.Sequence([pre.Split(Regex(LLAMA3), "isolated"),
                                            pre.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=8000, initial_alphabet=pre.ByteLevel.alphabet(), show_progress=False))
    tokenizer.save(str(path))
    return tokenizer


def byte_fallback(path, texts):
    """A tokenizer.json of the kind of Llama 2: a text is one word, and unknown characters are bytes."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers as pre, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre.Metaspace(prepend_scheme="always")
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=8000, limit_alphabet=120, show_progress=False))
    model = json.loads(tokenizer.to_str())["model"]
    tokens = ["<unk>"] + [f"<0x{i:02X}>" for i in range(256)] + sorted(model["vocab"], key=model["vocab"].get)
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(pair) for pair in model["merges"]],
                                     unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.save(str(path))
    return tokenizer


KINDS = {"tokenize_byte_level": byte_level, "tokenize_byte_fallback": byte_fallback}


def tokenize(bench):
    """MB/s of `troupe tokenize`, reading and writing included, over those of encode_batch on texts in memory."""
    if importlib.util.find_spec("tokenizers") is None:
        print(f"{bench.name}: left out: {sys.executable} has no tokenizers", file=sys.stderr)
        return None
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    texts = documents(300 if bench.smoke else DOCUMENTS)
    megabytes = sum(map(len, texts)) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        peer = KINDS[bench.name](folder / "tokenizer.json", texts[:500])
        (folder / "texts.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
        for i in range(bench.repeats(7)):
            begin = time.monotonic()
            peer.encode_batch(texts, add_special_tokens=False)
            theirs = time.monotonic() - begin
            begin = time.monotonic()
            subprocess.run([os.path.abspath(bench.troupe), "tokenize", "texts.jsonl", "--tokenizer", "tokenizer.json",
                            "-o", f"out{i}"], cwd=folder, check=True, capture_output=True)
            ours = time.monotonic() - begin
            bench.record("encode_batch, MB/s", megabytes / theirs)
            bench.record("troupe tokenize, MB/s", megabytes / ours)
            bench.record("ratio", theirs / ours)
    return Row(bench.name, bench.median("troupe tokenize, MB/s"), "MB/s", bench.median("ratio"),
               f"encode_batch of tokenizers: {bench.median('encode_batch, MB/s'):.1f} MB/s")

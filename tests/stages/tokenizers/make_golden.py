#!/usr/bin/env python3
"""Writes golden.json beside this file: small tokenizers, and the ids and texts that Hugging Face's tokenizers (0.23.3)
gives with them. usage: make_golden.py, with a python that has tokenizers."""
import json, pathlib

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers as pre, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = ["the cat sat on the mat and the cats' 12 hats, it's 1999\n",
          "they'll say: \"don't sit there\" (3.14)\n", "  indented\n\ttabs\n\n",
          "na\u00efve caf\u00e9 \u65e5\u672c\u8a9e \u0444\u044b\u0432\u0430 the end\n"] * 20
TEXTS = [
    "", " ", "the cat sat", "  two  spaces ", "\n", "\r\n\r\n x\r\n", "a  b   c \n\n\n   end   ",
    "it's IT'S they'Ll 'd 'x '\u017f",
    "12 1234567 3.14 \u00bd \u0663\u0664 \u2167", "na\u00efve e\u0301 \u0301x",
    "\U0001f600\U0001f44d\U0001f3fd \u2615\ufe0f",
    "\u65e5\u672c\u8a9e\u3002\u6587", "\u05e9\u05dc\u05d5\u05dd \u200fx", "a\u0000b",
    "\u001b[0m\u0085\u00a0x\u2028y\u180ez", "\u2581meta \u2581\u2581x", "\u0120byte \u010a", "<0x41> <unk>",
    "<s>x</s> <s> </s>y", "a<mask> b <mask>  c<mask>", "hat hats <hat>hat <hat> <hat>x", "zyzzyva zyzzyvas",
    "x" * 70 + " " * 70 + "the" * 30, "\ufeffbom \ufffd",
    "def f(x):\n    return x**2  # ok\n", "...!!!--- $1,234.56",
]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")


def token(content, **flags):
    """An added token, whose id is the place it gets."""
    plain = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=False)
    return dict(content=content, **{**plain, **flags})


def train(tokenizer, size, alphabet=()):
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=list(alphabet), show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return json.loads(tokenizer.to_str())


def with_tokens(j, *tokens):
    """Adds tokens behind the model's."""
    vocab = j["model"]["vocab"]
    for t in tokens:
        same = vocab.get(t["content"])
        j["added_tokens"].append(dict(id=len(vocab) + len(j["added_tokens"]) if same is None else same, **t))
    return j


def template(before, after, ids):
    pieces = lambda tokens: [f"{t}:0" for t in tokens]
    single = [*pieces(before), "$A:0", *pieces(after)]
    return json.loads(processors.TemplateProcessing(single=single, special_tokens=list(ids.items())).__getstate__())


def llama3():
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre.Sequence([pre.Split(Regex(LLAMA3), "isolated"),
                                    pre.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    j = train(t, 320, pre.ByteLevel.alphabet())
    j["model"]["vocab"]["zyzzyva"] = len(j["model"]["vocab"])
    j = with_tokens(j, *(token(name, special=True) for name in ("<s>", "</s>", "<mask>")))
    ids = {t["content"]: t["id"] for t in j["added_tokens"]}
    byte_level = dict(type="ByteLevel", add_prefix_space=True, trim_offsets=False, use_regex=True)
    j["post_processor"] = dict(type="Sequence", processors=[byte_level, template(["<s>"], [], {"<s>": ids["<s>"]})])
    return j


def gpt2(prefix):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre.ByteLevel(add_prefix_space=prefix), decoders.ByteLevel()
    j = train(t, 310, pre.ByteLevel.alphabet())
    if not prefix:
        j["model"]["merges"] = ["#version: 0.2"] + [" ".join(pair) for pair in j["model"]["merges"]]
    return with_tokens(j, token("<s>", special=True, normalized=True), token("<mask>"))


def byte_fallback(metaspace):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre.Metaspace(prepend_scheme="always")
    lines = [line.strip() for line in CORPUS]  # no token has a newline
    t.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=90, show_progress=False))
    model = json.loads(t.to_str())["model"]
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    pieces += sorted(model["vocab"], key=model["vocab"].get)
    t = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, [tuple(p) for p in model["merges"]],
                             unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if metaspace:
        t.pre_tokenizer = pre.Metaspace(prepend_scheme="first", split=False)
        t.decoder = decoders.Sequence([decoders.Metaspace(prepend_scheme="first", split=False),
                                       decoders.ByteFallback(), decoders.Fuse()])
    else:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                       decoders.Strip(" ", 1, 0)])
    t.add_special_tokens(pieces[:3])
    j = json.loads(t.to_str())
    j["post_processor"] = template(["<s>"], ["</s>"], {"<s>": 1, "</s>": 2})
    return j


def unknown(fuse, some_bytes):
    """Words with a mark before them; unknown characters become <unk>, or bytes where the vocabulary has them all."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse, byte_fallback=some_bytes))
    t.pre_tokenizer = pre.Metaspace(prepend_scheme="always")
    t.train_from_iterator(CORPUS[:1], trainers.BpeTrainer(vocab_size=40, special_tokens=["<unk>"], show_progress=False))
    j = json.loads(t.to_str())
    j["decoder"] = json.loads(decoders.Metaspace().__getstate__())
    for byte in (0xC3, 0xA9, 0xAF, 0x0A) if some_bytes else ():
        j["model"]["vocab"][f"<0x{byte:02X}>"] = len(j["model"]["vocab"])
    return j


def digits():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    return with_tokens(train(t, 300, pre.ByteLevel.alphabet()), token("<hat>", single_word=True, normalized=True),
                       token("hat", single_word=True), token("  ", normalized=True), token("   "),
                       token("<s>", lstrip=True, rstrip=True))


def golden(name, j):
    t = Tokenizer.from_str(json.dumps(j))
    texts = []
    for text in TEXTS:
        plain, framed = (t.encode(text, add_special_tokens=special).ids for special in (False, True))
        texts.append(dict(text=text, ids=plain, framed=framed, decoded=t.decode(framed)))
    return dict(name=name, tokenizer=j, texts=texts)


TOKENIZERS = dict(llama3=llama3(), gpt2=gpt2(prefix=False), prefix_space=gpt2(prefix=True),
                  llama2=byte_fallback(metaspace=False), metaspace=byte_fallback(metaspace=True),
                  unknown=unknown(fuse=False, some_bytes=False), fused_unknown=unknown(fuse=True, some_bytes=False),
                  some_bytes=unknown(fuse=True, some_bytes=True), digits=digits())
(HERE / "golden.json").write_text("[" + ",\n".join(json.dumps(golden(*item)) for item in TOKENIZERS.items()) + "]\n")

#!/usr/bin/env python3
"""Writes beside_golden.json beside this file: files beside a tokenizer.json, and the ids that transformers'
AutoTokenizer (5.24) gives with them. usage: make_beside_golden.py, with a python that has transformers."""
import json, pathlib, random, tempfile

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers as pre, processors
from transformers import AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ["<m>", "<own>", "<a>", "<b>", "<c>", "<d>"]
TEXTS = ["x<own>y <own> <m>", " ".join(NAMES), "".join(NAMES), "  <a>\n<b>x<c> <d>", "no token", "[PAD] <img><x>"]


def base():
    """Bytes, a token of the model that is not added, and an added one."""
    alphabet = sorted(pre.ByteLevel.alphabet())
    t = Tokenizer(models.BPE({**{c: i for i, c in enumerate(alphabet)}, "<m>": 256}, []))
    t.pre_tokenizer, t.decoder = pre.ByteLevel(add_prefix_space=False, use_regex=False), decoders.ByteLevel()
    t.add_tokens([AddedToken("<own>")])
    t.post_processor = processors.TemplateProcessing(single="<own> $A", special_tokens=[("<own>", 257)])
    return t


def token(content, **flags):
    plain = dict(content=content, lstrip=False, rstrip=False, normalized=False, single_word=False, special=False)
    return {**plain, **flags}


def typed(content, **flags):
    return dict(token(content, **flags), __type="AddedToken")


def config(**members):
    return {"tokenizer_config.json": dict(tokenizer_class="PreTrainedTokenizerFast", **members)}


def drawn(r):
    """Some files at random."""
    content = lambda: r.choice(NAMES + ["[PAD]", "<img>", "<x>"])
    flags = lambda: {k: r.random() < 0.3 for k in ("lstrip", "rstrip", "normalized", "single_word", "special")}
    named = lambda: r.choice([content(), typed(content(), **flags())])
    members = {name: named() for name in ("bos_token", "eos_token", "unk_token", "pad_token") if r.random() < 0.4}
    if r.random() < 0.3: members["image_token"] = content()
    if r.random() < 0.3: members["boi_token"] = content()
    if r.random() < 0.4:
        members[r.choice(["extra_special_tokens", "additional_special_tokens"])] = [content(), content()]
    if r.random() < 0.1: members["split_special_tokens"] = True
    files = config(**members)
    more = r.sample(NAMES[2:], r.randint(1, 3))
    if r.random() < 0.5:
        decoder = {257: token("<own>", **flags()), **{258 + i: token(c, **flags()) for i, c in enumerate(more)}}
        files["tokenizer_config.json"]["added_tokens_decoder"] = {str(i): t for i, t in decoder.items()}
    elif r.random() < 0.6:
        files["added_tokens.json"] = {c: 258 + i for i, c in enumerate(more)}
    if r.random() < 0.4:
        files["special_tokens_map.json"] = {"pad_token": r.choice([content(), token(content(), **flags())]),
                                            "additional_special_tokens": [content()]}
    return files


CASES = [
    {}, config(), config(added_tokens_decoder={"258": token("<a>"), "259": token("<b>", special=True)}),
    config(added_tokens_decoder={"259": token("<b>", lstrip=True), "258": token("<a>", rstrip=True)}),
    config(added_tokens_decoder={"257": token("<own>", lstrip=True, special=True), "256": token("<m>")}),
    config(pad_token="[PAD]", eos_token="<m>", bos_token="<own>"),
    config(pad_token=typed("[PAD]", lstrip=True), image_token="<img>", boi_token="<x>"),
    config(additional_special_tokens=["<a>", "<own>"]), config(extra_special_tokens={"image_token": "<img>"}),
    config(extra_special_tokens=["<a>"], additional_special_tokens=["<b>"]),
    config(add_bos_token=True, add_eos_token=True, bos_token="<m>", eos_token="<own>"),
    {"special_tokens_map.json": dict(pad_token="[PAD]", eos_token=token("<own>", lstrip=True),
                                     additional_special_tokens=["<a>"])},
    {"added_tokens.json": {"<b>": 259, "<a>": 258}},
    {**config(pad_token="<a>"), "added_tokens.json": {"<a>": 258, "<b>": 259}},
    {**config(added_tokens_decoder={"258": token("<c>")}), "added_tokens.json": {"<a>": 258},
     "special_tokens_map.json": dict(pad_token="[PAD]")},
    config(split_special_tokens=True, pad_token="<a>",
           added_tokens_decoder={"258": token("<b>"), "259": token("<c>", special=True)}),
]


def golden(tokenizer, files):
    with tempfile.TemporaryDirectory() as d:
        tokenizer.save(f"{d}/tokenizer.json")
        for name, content in files.items():
            pathlib.Path(d, name).write_text(json.dumps(content))
        t = AutoTokenizer.from_pretrained(d)
        return dict(files=files, texts=[dict(text=x, ids=t.encode(x, add_special_tokens=False), framed=t.encode(x),
                                             decoded=t.decode(t.encode(x), skip_special_tokens=True)) for x in TEXTS],
                    stated=t.get_added_vocab())


def sound(case):
    """Whether every id that a file states is the one that its token has; the others are refused."""
    files, has = case["files"], case["stated"]
    decoder = files.get("tokenizer_config.json", {}).get("added_tokens_decoder")
    states = files.get("added_tokens.json", {})
    if decoder is not None: states = {t["content"]: int(i) for i, t in decoder.items()}
    return all(has.get(c) == i for c, i in states.items())


r, made = random.Random(29), [golden(base(), files) for files in CASES]
while len(made) < 60:
    case = golden(base(), drawn(r))
    if sound(case): made.append(case)
for case in made: del case["stated"]
tokenizer = json.loads(base().to_str())
cases = ",\n".join(map(json.dumps, made))
(HERE / "beside_golden.json").write_text(f'{{"tokenizer": {json.dumps(tokenizer)},\n"cases": [{cases}]}}\n')

#!/usr/bin/env python3
"""Writes golden.json and golden_steps.json beside this file: small tokenizers, and the ids and texts that Hugging
Face's tokenizers (0.23.3) gives with them. usage: make_golden.py, with a python that has tokenizers."""
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
# For normal forms, for scripts, and characters newer than the tables of other libraries.
MARKS = ["Ame\u0301lie A\u030a \u212b", "\u1100\u1161\u11a8 \uac01", "q\u0307\u0323 q\u0323\u0307",
         "\ufb01 \u00b2\u00bd \u337f \uff26ull",
         "x\u07fd\u0323y x\u1df6\u0301 \U00011935\U00011930 \u0915\u093c \u0344",
         "\u0130stanbul STRASSE \u1e9e \ua7cb\U00010d50",
         "\u4f60\u597d world\u3005\u4e16\u754c\U0003135012\U00031350a \u30ab\u30bf\u306a \ud55c\uad6d",
         "CamelCaseHTTPRequest x1y2 snake_case",
         "a\u1c89\u1c8a \U0001fae8\U0001fae9! \u2ffc\u31ef 1\U00010d40\U000116d0 \U00013460\U0001343a",
         "\ufffd\u200b\u0007\tx",
         "one\n/two!\n/three\n\nfour \n five", "(a) \u201cb\u201d\u3001c\u3002 100% -- d..."]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")


QWEN = LLAMA3.replace("{1,3}", "")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
          r"|\s+(?!\S)|\s+")
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


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


def byte_level(normalizer, *words):
    """Words by patterns, which are split by each in turn, of bytes."""
    t = Tokenizer(models.BPE())
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre.Sequence([pre.Split(Regex(w), "isolated") for w in words] +
                                   [pre.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    return with_tokens(train(t, 300, pre.ByteLevel.alphabet()), token("<s>", special=True),
                       token("<hat>", normalized=True))


def behind_bytes():
    """Steps that come after ByteLevel see letters that stand for bytes."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre.Sequence([pre.Punctuation("contiguous"), pre.ByteLevel(add_prefix_space=False), pre.Digits(),
                                    pre.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    t.decoder = decoders.ByteLevel()
    return train(t, 300, pre.ByteLevel.alphabet())


def unigram(byte_fallback):
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer, t.decoder = pre.Metaspace(), decoders.Metaspace()
    t.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=70, unk_token="<unk>", show_progress=False,
                                                          special_tokens=["<unk>", "<s>"]))
    j = json.loads(t.to_str())
    if byte_fallback:
        j["normalizer"] = json.loads(normalizers.Sequence([normalizers.NFKC(), normalizers.Strip()]).__getstate__())
        j["model"]["byte_fallback"] = True
        j["model"]["vocab"] += [[f"<0x{i:02X}>", -20.0] for i in range(256)]
    return j


def word_piece(normalizer, words, post_processor=None):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=40))
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, words, decoders.WordPiece()
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=90, special_tokens=["[UNK]", "[CLS]", "[SEP]"],
                                                            show_progress=False))
    if post_processor:
        t.post_processor = post_processor(("[SEP]", 2), ("[CLS]", 1))
    return json.loads(t.to_str())


def golden(name, j, given=TEXTS):
    t = Tokenizer.from_str(json.dumps(j))
    texts = []
    for text in given:
        plain, framed = (t.encode(text, add_special_tokens=special).ids for special in (False, True))
        texts.append(dict(text=text, ids=plain, framed=framed, decoded=t.decode(framed)))
    return dict(name=name, tokenizer=j, texts=texts)


TOKENIZERS = dict(llama3=llama3(), gpt2=gpt2(prefix=False), prefix_space=gpt2(prefix=True),
                  llama2=byte_fallback(metaspace=False), metaspace=byte_fallback(metaspace=True),
                  unknown=unknown(fuse=False, some_bytes=False), fused_unknown=unknown(fuse=True, some_bytes=False),
                  some_bytes=unknown(fuse=True, some_bytes=True), digits=digits())
(HERE / "golden.json").write_text("[" + ",\n".join(json.dumps(golden(*item)) for item in TOKENIZERS.items()) + "]\n")

STEPS = dict(qwen=byte_level(normalizers.NFC(), QWEN), cl100k=byte_level(None, CL100K), kimi=byte_level(None, KIMI),
             tekken=byte_level(normalizers.NFKC(), TEKKEN), nfd=byte_level(normalizers.NFD(), QWEN),
             nfkd=byte_level(normalizers.NFKD(), QWEN),
             deepseek=byte_level(None, r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK),
             behind_bytes=behind_bytes(), unigram=unigram(False), unigram_bytes=unigram(True),
             bert=word_piece(normalizers.BertNormalizer(), pre.BertPreTokenizer(), processors.BertProcessing),
             cased=word_piece(normalizers.BertNormalizer(lowercase=False), pre.Whitespace(),
                              lambda sep, cls: processors.RobertaProcessing(sep, cls)),
             accents=word_piece(normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(),
                                                      normalizers.Lowercase()]),
                                pre.Sequence([pre.WhitespaceSplit(), pre.Punctuation()])))
LINES = ",\n".join(json.dumps(golden(name, j, TEXTS[::2] + MARKS)) for name, j in STEPS.items())
(HERE / "golden_steps.json").write_text(f"[{LINES}]\n")

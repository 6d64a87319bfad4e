#!/usr/bin/env python3
"""Writes llama_golden.json beside this file: the ids that transformers' AutoTokenizer (5.24) gives for directories of
LlamaTokenizer with the tokenizer.json "llama2" of golden.json, whose normalizer version 4 went by.
usage: make_llama_golden.py, with a python that has transformers."""
import json, pathlib, tempfile

from transformers import AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent
CONFIGS = [{}, {"legacy": True}, {"legacy": False}, {"add_prefix_space": False},
           {"legacy": True, "add_prefix_space": True}]
TEXTS = ["the cat", " the cat", "\u2581the", "  two", "a</s>b", "a</s> the", "<s>the cat", "<s> the</s>",
         "\nthe", "", " "]


def main():
    tokenizer = next(g["tokenizer"] for g in json.loads((HERE / "golden.json").read_text()) if g["name"] == "llama2")
    cases = []
    for config in CONFIGS:
        config = dict(tokenizer_class="LlamaTokenizer", transformers_version="5.24.0", bos_token="<s>",
                      eos_token="</s>", unk_token="<unk>", **config)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
            (folder / "tokenizer_config.json").write_text(json.dumps(config))
            library = AutoTokenizer.from_pretrained(folder)
            ids = [library.encode(text, add_special_tokens=False) for text in TEXTS]
            decoded = [library.decode(i, skip_special_tokens=True, clean_up_tokenization_spaces=False) for i in ids]
        cases.append(dict(config=config, ids=ids, decoded=decoded))
    (HERE / "llama_golden.json").write_text(json.dumps(dict(texts=TEXTS, cases=cases)) + "\n")


if __name__ == "__main__":
    main()

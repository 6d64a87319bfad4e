#!/usr/bin/env python3
"""Greedy generation by transformers: the peer of generate_prefill and generate_decode.

usage: generation_peer.py CHECKPOINT PROMPTS TOKENS THREADS
Reads the checkpoint as a Hugging Face folder, and the prompts, lines of one length whose bytes are tokens. Prints
"ready" and its version; then answers "prefill" with the seconds until the first token of each prompt, and "decode" with
those of TOKENS tokens after it.
"""
import sys, time
import torch, transformers


def seconds(model, ids, tokens):
    begin = time.perf_counter()
    model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens,
                   do_sample=False, pad_token_id=0)
    return time.perf_counter() - begin


if __name__ == "__main__":
    folder, prompts, tokens, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.tensor([list(line.encode()) for line in open(prompts).read().splitlines()])
    seconds(model, ids, 2)
    print(f"ready transformers {transformers.__version__}, PyTorch {torch.__version__}", flush=True)
    for order in sys.stdin:
        prefill = seconds(model, ids, 1)
        print(prefill if order.strip() == "prefill" else seconds(model, ids, 1 + tokens) - prefill, flush=True)

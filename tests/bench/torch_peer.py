#!/usr/bin/env python3
"""The measured training step in PyTorch with torch.compile: the peer of the torch_* benchmarks.

usage: torch_peer.py float32|bfloat16 [--threads N] [--global SAMPLES]
Prints "ready" and its version after compilation and warm-up steps. Then every line on standard input runs one step (all
microbatches, gradient clipping, AdamW) and answers with its seconds. bfloat16 is what PyTorch users take: autocast over
float32 weights.
"""
import argparse, sys, time
import torch, torch.nn as nn, torch.nn.functional as F

HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, VOCAB, SEQ, MICRO = 512, 1376, 8, 8, 4, 4096, 256, 4
HEAD_DIM = HIDDEN // HEADS
EPS, ROPE_THETA = 1e-5, 10000.0


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class Layer(nn.Module):
    """One decoder layer; q, k, v and gate, up each as one product, as fast trainers do it."""

    def __init__(self):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(HIDDEN, EPS), nn.RMSNorm(HIDDEN, EPS)
        self.qkv = nn.Linear(HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD_DIM, bias=False)
        self.o = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.gate_up = nn.Linear(HIDDEN, 2 * FFN, bias=False)
        self.down = nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x, cos, sin):
        batch, seq, _ = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, seq, -1, HEAD_DIM).transpose(1, 2)
        q, k, v = qkv.split([HEADS, KV_HEADS, KV_HEADS], 1)
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        k, v = (t.repeat_interleave(HEADS // KV_HEADS, 1) for t in (k, v))
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(context.transpose(1, 2).reshape(batch, seq, HIDDEN))
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(HIDDEN, EPS)
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False)
        inverse = 1.0 / ROPE_THETA ** (torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
        angle = torch.outer(torch.arange(SEQ), inverse).repeat(1, 2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, ids, targets):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).float().view(-1, VOCAB), targets.view(-1))


class Trainer:
    def __init__(self, dtype, samples):
        torch.manual_seed(1)
        self.model = Model()
        self.loss = torch.compile(self.model)
        self.autocast = torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1,
                                           fused=True)
        tokens = torch.randint(VOCAB, (samples // MICRO, MICRO, SEQ + 1))
        self.batches = [(t[:, :-1].contiguous(), t[:, 1:].contiguous()) for t in tokens]

    def step(self):
        begin = time.monotonic()
        self.optimizer.zero_grad(set_to_none=True)
        for ids, targets in self.batches:
            with self.autocast:
                loss = self.loss(ids, targets)
            (loss / len(self.batches)).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dtype", choices=("float32", "bfloat16"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--global", dest="samples", type=int, default=16)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    trainer = Trainer(args.dtype, args.samples)
    trainer.step()
    trainer.step()
    print(f"ready PyTorch {torch.__version__}, torch.compile", flush=True)
    for _ in sys.stdin:
        print(trainer.step(), flush=True)


if __name__ == "__main__":
    main()

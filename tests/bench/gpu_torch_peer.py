#!/usr/bin/env python3
"""The measured training step of a GPU in PyTorch with torch.compile: the peer of the gpu_torch_* benchmarks.

usage: gpu_torch_peer.py 1b5|7b SEQ flash|cudnn DETERMINISTIC
Prints "ready", the tokens of a step and its version after warm-up steps. Then every line on standard input runs a step
(all microbatches, gradient clipping, fused AdamW) and answers with its seconds. Weights are float32 and the computation
bfloat16 by autocast, as ours; DETERMINISTIC 1 asks PyTorch for deterministic algorithms, which not every attention has.
"""
import os, sys
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS refuses deterministic products
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import torch_peer as peer

VOCAB, ROWS, MICROBATCHES = 32000, 8192, 4
#         hidden, feed-forward, layers, heads, key-value heads
SIZES = {"1b5": (2048, 5632, 28, 16, 8), "7b": (4096, 11008, 4, 32, 32)}
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


class Layer(peer.Layer):
    """As torch_peer's, but without a copy of keys and values for each query head."""

    def forward(self, x, cos, sin):
        batch, seq, hidden = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, seq, -1, peer.HEAD_DIM).transpose(1, 2)
        q, k, v = qkv.split([peer.HEADS, peer.KV_HEADS, peer.KV_HEADS], 1)
        q, k = peer.rotate(q, cos, sin).to(v.dtype), peer.rotate(k, cos, sin).to(v.dtype)
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=peer.HEADS != peer.KV_HEADS)
        x = x + self.o(context.transpose(1, 2).reshape(batch, seq, hidden))
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Trainer:
    def __init__(self, size, seq_len):
        peer.HIDDEN, peer.FFN, peer.LAYERS, peer.HEADS, peer.KV_HEADS = SIZES[size]
        peer.HEAD_DIM, peer.VOCAB, peer.SEQ, peer.Layer = 128, VOCAB, seq_len, Layer
        torch.manual_seed(1)
        with torch.device("cuda"):
            self.model = peer.Model()
            tokens = torch.randint(VOCAB, (MICROBATCHES, ROWS // seq_len, seq_len + 1))
        self.loss = torch.compile(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1,
                                           fused=True)
        self.batches = [(t[:, :-1].contiguous(), t[:, 1:].contiguous()) for t in tokens]

    def step(self):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.optimizer.zero_grad(set_to_none=True)
        for ids, targets in self.batches:
            with torch.autocast("cuda", torch.bfloat16):
                loss = self.loss(ids, targets)
            (loss / len(self.batches)).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__.splitlines()[2])
    size, seq_len, attention, deterministic = sys.argv[1:]
    if deterministic == "1":
        torch.use_deterministic_algorithms(True)
    with sdpa_kernel(BACKENDS[attention]):
        trainer = Trainer(size, int(seq_len))
        for _ in range(10):
            trainer.step()
        print(f"ready {ROWS * MICROBATCHES} PyTorch {torch.__version__}", flush=True)
        for _ in sys.stdin:
            print(trainer.step(), flush=True)


if __name__ == "__main__":
    main()

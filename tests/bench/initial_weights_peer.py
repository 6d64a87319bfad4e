#!/usr/bin/env python3
"""The initial weights of the benchmarks' model by PyTorch: the peer of initial_weights.

usage: initial_weights_peer.py THREADS
Prints "ready" and its version. Then every line on standard input draws all matrices once, and is answered with the
seconds that this took.
"""
import sys, time
import torch

import torch_peer as model


def main():
    torch.set_num_threads(int(sys.argv[1]))
    layer = [((model.HEADS + 2 * model.KV_HEADS) * model.HEAD_DIM, model.HIDDEN), (model.HIDDEN, model.HIDDEN),
             (2 * model.FFN, model.HIDDEN), (model.HIDDEN, model.FFN)]
    shapes = 2 * [(model.VOCAB, model.HIDDEN)] + model.LAYERS * layer
    weights = [torch.zeros(shape) for shape in shapes]
    print("ready PyTorch", torch.__version__, flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        for weight in weights:
            torch.nn.init.normal_(weight, std=0.02)
        print(time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    main()

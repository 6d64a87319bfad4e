#!/usr/bin/env python3
"""All-reduces of float32 by Gloo, as torch.distributed uses it: the peer of all_reduce_2_16MiB_gloo.

usage: gloo_peer.py RANKS BYTES N
Starts a process for each rank and prints the seconds of an all-reduce, of N in turn.
"""
import os, socket, sys, time
import torch, torch.distributed, torch.multiprocessing

WARM_UP = 16


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def measure(rank, ranks, size, rounds, port):
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    x = torch.zeros(size // 4)
    for _ in range(WARM_UP):
        torch.distributed.all_reduce(x)
    begin = time.perf_counter()
    for _ in range(rounds):
        torch.distributed.all_reduce(x)
    if rank == 0:
        print((time.perf_counter() - begin) / rounds, flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    ranks, size, rounds = map(int, sys.argv[1:])
    torch.multiprocessing.spawn(measure, (ranks, size, rounds, free_port()), nprocs=ranks)

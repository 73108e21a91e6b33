#!/usr/bin/env python3
"""PyTorch's operations on state dicts, as state_dict_bench.py times them: python torch_state_dict.py RANKS

Reads operations from the input, a line each, and prints the seconds from the moment when all processes
are ready to that when the last is done.
"""
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed import _state_dict_utils as utils
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

TENSORS, ROWS, COLUMNS = 32, 4096, 1024


def prepare(rank, ranks):
    """This rank's part, the whole, and what a copy goes into."""
    mesh = init_device_mesh("cpu", (ranks,))
    rows = ROWS // ranks
    full, local = {}, {}
    for i in range(TENSORS):
        whole = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(i))
        full["layers.%d.weight" % i] = whole
        local["layers.%d.weight" % i] = DTensor.from_local(
            whole[rank * rows:(rank + 1) * rows].clone(), mesh, [Shard(0)], run_check=False)
    return full, local, utils._create_cpu_state_dict(local)


def run(operation, rank, full, local, companion):
    """Returns what the operation made, so that freeing it is not timed."""
    if operation == "gather":
        return utils._gather_state_dict(local)
    if operation == "gather to rank 0":
        return utils._gather_state_dict(local, ranks_only=(0,))
    if operation == "broadcast":
        result = dict(local)
        utils._broadcast_state_dict(full if rank == 0 else {}, result, torch.device("cpu"))
        return result
    if operation == "distribute":
        result = dict(local)
        utils._distribute_state_dict(full, result, torch.device("cpu"))
        return result
    if operation == "copy":
        return utils._copy_state_dict(local, companion)
    if operation == "clone":
        return [tensor.to_local().clone() for tensor in local.values()]
    raise ValueError("no such operation: " + operation)


def rank_main(rank, ranks, store, pipe):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # as ours
    dist.init_process_group("gloo", rank=rank, world_size=ranks, init_method="file://" + store)
    state = prepare(rank, ranks)
    while (operation := pipe.recv()) is not None:
        dist.barrier()
        start = time.monotonic()
        result = run(operation, rank, *state)
        pipe.send((start, time.monotonic()))
        del result
    dist.destroy_process_group()


def main():
    ranks = int(sys.argv[1])
    context = mp.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(ranks):
            here, there = context.Pipe()
            process = context.Process(target=rank_main, args=(rank, ranks, folder + "/store", there),
                                      daemon=True)
            process.start()
            there.close()
            pipes.append(here)
            processes.append(process)
        for line in sys.stdin:
            for pipe in pipes:
                pipe.send(line.strip())
            times = [pipe.recv() for pipe in pipes]  # one clock for all processes of a machine
            print(max(end for _, end in times) - min(start for start, _ in times), flush=True)
        for pipe in pipes:
            pipe.send(None)
        for process in processes:
            process.join()


if __name__ == "__main__":
    main()

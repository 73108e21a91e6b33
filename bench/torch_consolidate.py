#!/usr/bin/env python3
"""PyTorch's offline consolidation, as merge_bench.py measures it.

    python torch_consolidate.py prepare CHECKPOINT SHARDS   the bytes of CHECKPOINT as it takes them
    python torch_consolidate.py run SHARDS OUT

SHARDS are what torch.distributed.checkpoint's HuggingFaceStorageWriter(save_distributed=True) leaves:
one safetensors file a rank, whose metadata says where each tensor's part belongs.
"""
import json
import pathlib
import sys


def prepare(checkpoint, shards):
    import safetensors.torch
    import torch

    shards.mkdir()
    for file in sorted(checkpoint.glob("*.pt")):
        rank = int(file.stem.rsplit("_", 1)[1])
        state = torch.load(file, weights_only=False)
        state.pop("lm_head.weight")  # tied: safetensors refuses tensors that share memory
        tensors = {name: tensor.to_local() for name, tensor in state.items()}
        offsets = {name: {"saved_offsets": [rank * tensor.shape[0]] + [0] * (tensor.dim() - 1)}
                   for name, tensor in tensors.items()}
        safetensors.torch.save_file(tensors, shards / ("shard-%05d-model-00001-of-00001.safetensors"
                                                       % (rank + 1)),
                                    {"format": "pt", "DCP_VERSION": "1.0",
                                     "DCP_SHARDING_INFO": json.dumps(offsets)})


def run(shards, out):
    from torch.distributed.checkpoint._consolidate_hf_safetensors import (
        consolidate_safetensors_files)

    with open(next(iter(sorted(shards.iterdir()))), "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    header.pop("__metadata__")
    consolidate_safetensors_files(str(shards), str(out), {name: 1 for name in header},
                                  num_threads=2)


if __name__ == "__main__":
    {"prepare": prepare, "run": run}[sys.argv[1]](*map(pathlib.Path, sys.argv[2:]))

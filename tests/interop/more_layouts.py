#!/usr/bin/env python3
"""Makes checkpoints with the installed PyTorch in layouts that generate.py does not have.

    python more_layouts.py OUT [--case NAME ...]

The same folder layout as generate.py. expected.safetensors always comes from the tensors before they
were sharded (or, for Partial, from arithmetic on whole numbers), never from PyTorch gathering them.
"""
import argparse
import json
import os
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from safetensors.torch import save_file
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

warnings.filterwarnings("ignore")


class Random:
    """Tensors that are the same on each rank."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape, dtype=torch.float32):
        return torch.randn(*shape, generator=self.generator).to(dtype)


def distributed(full, mesh, placements):
    """{name: tensor} -> {name: DTensor}; placements: one list for all, or {name: list}."""
    place = placements if isinstance(placements, dict) else {name: placements for name in full}
    return {name: distribute_tensor(t, mesh, place[name]) for name, t in full.items()}


def by_hand(full, mesh, placements):
    """As distribute_tensor, without its communication: cuts from left to right by torch.chunk."""
    sharded = {}
    for name, tensor in full.items():
        local = tensor
        for mesh_dim, placement in enumerate(placements):
            if isinstance(placement, Shard):
                parts = mesh.size(mesh_dim)
                chunks = list(local.chunk(parts, placement.dim))
                if mesh.get_coordinate()[mesh_dim] < len(chunks):
                    local = chunks[mesh.get_coordinate()[mesh_dim]]
                else:
                    local = local.narrow(placement.dim, 0, 0)
        sharded[name] = DTensor.from_local(local.contiguous().clone(), mesh, placements,
                                           run_check=False, shape=tensor.shape,
                                           stride=tensor.contiguous().stride())
    return sharded


def case_hsdp_other_names_w4(rank, world):
    """Replicate and shard dimensions called as torchtitan calls them."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp_replicate", "dp_shard"))
    r = Random(1)
    full = {"a": r(10, 3), "b": r(7), "c": r(3, 2, 5), "d": r(1, 4)}
    return distributed(full, mesh, [Replicate(), Shard(0)]), full


def case_hsdp_no_names_w4(rank, world):
    """A mesh without names."""
    r = Random(2)
    full = {"a": r(10, 3), "b": r(5)}
    return distributed(full, DeviceMesh("cpu", torch.arange(4).view(2, 2)),
                       [Replicate(), Shard(0)]), full


# A mesh whose rank array does not count upwards. PyTorch makes a process group of each line of the mesh,
# and new_group() sorts its ranks: collectives and FSDP place data by the rank's position in the sorted
# line, whatever the array says (torch 2.13, distributed_c10d.py _new_group_with_tag; fsdp/
# _fully_shard/_fsdp_common.py, shard_mesh_rank). distribute_tensor() also loses rows of uneven tensors
# on such a mesh, so these are even where it makes them.


def case_permuted_replicas_w4(rank, world):
    """Only the replicated dimension is out of order: sorting changes nothing."""
    mesh = DeviceMesh("cpu", [[2, 3], [0, 1]], mesh_dim_names=("dp_replicate", "dp_shard"))
    r = Random(3)
    full = {"a": r(10, 3), "b": r(5), "replicated": r(4)}
    place = {"a": [Replicate(), Shard(0)], "b": [Replicate(), Shard(0)],
             "replicated": [Replicate(), Replicate()]}
    return distributed(full, mesh, place), full


def case_permuted_shards_w4(rank, world):
    """Both dimensions are cut, one of them is out of order."""
    mesh = DeviceMesh("cpu", [[2, 3], [0, 1]])
    r = Random(16)
    full = {"both": r(8, 6), "first": r(8, 3), "twice": r(8)}
    place = {"both": [Shard(1), Shard(0)], "first": [Shard(0), Replicate()],
             "twice": [Shard(0), Shard(0)]}
    return distributed(full, mesh, place), full


def case_permuted_mesh_w4(rank, world):
    """Both dimensions are out of order."""
    mesh = DeviceMesh("cpu", [[3, 1], [0, 2]], mesh_dim_names=("dp_replicate", "dp_shard"))
    r = Random(17)
    full = {"a": r(10, 3), "b": r(6), "replicated": r(4)}
    place = {"a": [Replicate(), Shard(0)], "b": [Replicate(), Shard(0)],
             "replicated": [Replicate(), Replicate()]}
    return distributed(full, mesh, place), full


def case_permuted_1d_w3(rank, world):
    """One dimension over three ranks, by distribute_tensor() and by FSDP2."""
    mesh = DeviceMesh("cpu", [2, 0, 1])
    r = Random(4)
    even = {"even": r(6, 2), "three": r(3)}
    full = {**{k: v.clone() for k, v in filled(TwoPrecisions()).state_dict().items()}, **even}
    module = fully_shard(filled(TwoPrecisions()), mesh=mesh)
    return {**module.state_dict(), **distributed(even, mesh, [Shard(0)])}, full


def case_mesh_3d_w8(rank, world):
    """Three mesh dimensions; each kind of mixture of shard and replicate, even and uneven."""
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    r = Random(5)
    full = {"even": r(8, 8, 8), "uneven": r(5, 7, 3), "middle": r(5, 4), "thrice": r(11, 2),
            "all_replicated": r(3), "zero_dim": r(1).reshape(())}
    place = {"even": [Shard(0), Shard(1), Shard(2)], "uneven": [Shard(2), Shard(0), Shard(1)],
             "middle": [Replicate(), Shard(1), Replicate()], "thrice": [Shard(0)] * 3,
             "all_replicated": [Replicate()] * 3, "zero_dim": [Replicate()] * 3}
    return distributed(full, mesh, place), full


def case_shard1_uneven_w4(rank, world):
    """Dimensions other than the first, cut unevenly; some ranks hold nothing."""
    mesh = init_device_mesh("cpu", (4,))
    r = Random(6)
    full = {"five": r(3, 5), "two": r(3, 2), "last": r(2, 3, 9), "middle": r(2, 6, 3)}
    place = {"five": [Shard(1)], "two": [Shard(1)], "last": [Shard(2)], "middle": [Shard(1)]}
    return distributed(full, mesh, place), full


def case_two_shards_one_dim_w6(rank, world):
    """Two mesh dimensions cut one tensor dimension: even, uneven, and fewer rows than ranks."""
    mesh = init_device_mesh("cpu", (2, 3))
    r = Random(7)
    full = {"even": r(12, 2), "uneven": r(7, 2), "short": r(4, 2), "columns": r(2, 11)}
    place = {"even": [Shard(0)] * 2, "uneven": [Shard(0)] * 2, "short": [Shard(0)] * 2,
             "columns": [Shard(1)] * 2}
    return distributed(full, mesh, place), full


def case_expert_parallel_w4(rank, world):
    """Experts cut on one mesh dimension, their rows on the other: [Shard(1), Shard(0)]."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp_shard_mod_ep", "ep"))
    r = Random(8)
    full = {"experts.gate_up": r(4, 6, 8), "experts.down": r(3, 5, 7)}
    return distributed(full, mesh, [Shard(1), Shard(0)]), full


def case_conv_w2(rank, world):
    """4-D and 5-D weights, as image and video encoders have them; one stored channels-last."""
    mesh = init_device_mesh("cpu", (2,))
    r = Random(9)
    full = {"patch3d": r(6, 3, 2, 4, 4), "patch2d": r(5, 3, 4, 4), "dim4": r(2, 2, 2, 2, 5)}
    place = {"patch3d": [Shard(0)], "patch2d": [Shard(0)], "dim4": [Shard(4)]}
    sharded = distributed(full, mesh, place)
    full["channels_last"] = r(4, 3, 5, 2)
    local = full["channels_last"].chunk(2)[rank].contiguous(memory_format=torch.channels_last)
    sharded["channels_last"] = DTensor.from_local(local, mesh, [Shard(0)], run_check=False)
    return sharded, full


def case_partials_w4(rank, world):
    """Partial of every operation that gloo has, alone and beside a shard; whole numbers."""
    mesh = init_device_mesh("cpu", (4,))
    grid = init_device_mesh("cpu", (2, 2))
    base = torch.arange(12.).view(4, 3)
    addend = lambda i: base * (i + 1) - 7 * i   # noqa: E731
    every = torch.stack([addend(i) for i in range(4)])
    full, sharded = {}, {}
    for op, whole in [("sum", every.sum(0)), ("avg", every.mean(0)), ("max", every.max(0).values),
                      ("min", every.min(0).values)]:
        full[op] = whole
        sharded[op] = DTensor.from_local(addend(rank), mesh, [Partial(op)], run_check=False)
    full["bf16_sum"] = every.sum(0).to(torch.bfloat16)
    sharded["bf16_sum"] = DTensor.from_local(addend(rank).to(torch.bfloat16), mesh, [Partial()],
                                             run_check=False)
    full["int_sum"] = every.sum(0).long() + 4 * 2 ** 60
    sharded["int_sum"] = DTensor.from_local(addend(rank).long() + 2 ** 60, mesh, [Partial()],
                                            run_check=False)
    row, column = grid.get_coordinate()
    full["shard_then_partial"] = addend(0) + addend(1)
    sharded["shard_then_partial"] = DTensor.from_local(addend(column).chunk(2)[row].clone(), grid,
                                                       [Shard(0), Partial()], run_check=False)
    full["partial_then_replicate"] = addend(0) + addend(1)
    sharded["partial_then_replicate"] = DTensor.from_local(addend(row), grid,
                                                           [Partial(), Replicate()], run_check=False)
    return sharded, full


class TwoPrecisions(nn.Module):
    def __init__(self):
        super().__init__()
        self.low = nn.Linear(6, 11).to(torch.bfloat16)
        self.high = nn.Linear(11, 5)
        self.scale = nn.Parameter(torch.ones(3))


def filled(module):
    torch.manual_seed(10)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape))
    return module


def case_fsdp2_two_precisions_w4(rank, world):
    """FSDP2 over bf16 and fp32 parameters, with a mixed precision policy and an optimizer step's worth
    of unsharding behind it."""
    full = {k: v.clone() for k, v in filled(TwoPrecisions()).state_dict().items()}
    model, mesh = filled(TwoPrecisions()), init_device_mesh("cpu", (world,))
    for part in (model.low, model.high):
        fully_shard(part, mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    fully_shard(model, mesh=mesh)
    model.unshard()
    model.reshard()
    return model.state_dict(), full


class Odd(nn.Module):
    """Sizes that two and three do not divide."""

    def __init__(self):
        super().__init__()
        self.col = nn.Linear(5, 11)
        self.row = nn.Linear(11, 7)
        self.scale = nn.Parameter(torch.ones(5))


def odd_over_tensor_parallel(mesh, fsdp_dims):
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   parallelize_module)
    full = {k: v.clone() for k, v in filled(Odd()).state_dict().items()}
    model = parallelize_module(filled(Odd()), mesh["tp"],
                               {"col": ColwiseParallel(), "row": RowwiseParallel()})
    return fully_shard(model, mesh=mesh[fsdp_dims]).state_dict(), full


def case_fsdp2_tp_uneven_w6(rank, world):
    """FSDP2 over uneven tensor parallelism, 2 x 3: the bytes lie in another order than the spec says."""
    return odd_over_tensor_parallel(init_device_mesh("cpu", (2, 3), mesh_dim_names=("dp", "tp")), "dp")


def case_hsdp_tp_uneven_w12(rank, world):
    """The same under a replicate dimension, 2 x 3 x 2."""
    mesh = init_device_mesh("cpu", (2, 3, 2), mesh_dim_names=("dp_replicate", "dp_shard", "tp"))
    return odd_over_tensor_parallel(mesh, ("dp_replicate", "dp_shard"))


def case_hsdp_fsdp2_w4(rank, world):
    """FSDP2's own HSDP on a permuted mesh."""
    full = {k: v.clone() for k, v in filled(TwoPrecisions()).state_dict().items()}
    model = filled(TwoPrecisions())
    mesh = DeviceMesh("cpu", [[2, 0], [1, 3]], mesh_dim_names=("dp_replicate", "dp_shard"))
    for part in (model.low, model.high):
        fully_shard(part, mesh=mesh)
    return fully_shard(model, mesh=mesh).state_dict(), full


def case_compiled_names_w2(rank, world):
    """torch.compile and activation checkpointing put their own components into the names."""
    mesh = init_device_mesh("cpu", (2,))
    r = Random(11)
    full = {"model.layers.0.weight": r(5, 3), "model.embed.weight": r(4, 2), "head.module.bias": r(3)}
    sharded = distributed(full, mesh, [Shard(0)])
    return {"module._orig_mod.model.layers.0._checkpoint_wrapped_module.weight":
            sharded["model.layers.0.weight"],
            "_orig_mod.model._fsdp_wrapped_module.embed.weight": sharded["model.embed.weight"],
            "_orig_mod.head.module.bias": sharded["head.module.bias"]}, full


def case_every_integer_w2(rank, world):
    """Types that communication libraries lack, cut by hand on two mesh dimensions."""
    mesh = init_device_mesh("cpu", (2, 1))
    full = {}
    for name in ["int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool",
                 "float64", "float8_e4m3fn", "float8_e5m2", "complex64"]:
        values = torch.arange(15).reshape(5, 3)
        full[name] = (values % 2 == 0) if name == "bool" else values.to(getattr(torch, name))
    return by_hand(full, mesh, [Shard(0), Shard(1)]), full


def case_large_views_w2(rank, world):
    """Shards that are views of larger storages (2.13 saves such DTensors only without offset)."""
    mesh = init_device_mesh("cpu", (2,))
    r = Random(12)
    full = {"transposed": r(6, 4), "every_other": r(6, 4)}
    parts = {name: tensor.chunk(2)[rank] for name, tensor in full.items()}
    wide = torch.zeros(3, 8)
    wide[:, ::2] = parts["every_other"]
    local = {"transposed": parts["transposed"].t().contiguous().t(), "every_other": wide[:, ::2]}
    return {name: DTensor.from_local(t, mesh, [Shard(0)], run_check=False)
            for name, t in local.items()}, full


def case_plain_w1(rank, world):
    """One rank, plain tensors: NO_SHARD training."""
    r = Random(13)
    full = {"a.weight": r(4, 3), "a.bias": r(4), "step": torch.tensor(5)}
    return dict(full), full


def case_plain_beside_dtensors_w2(rank, world):
    """Plain tensors that are copies, beside DTensors: buffers under FSDP2."""
    mesh = init_device_mesh("cpu", (2,))
    r = Random(14)
    full = {"w": r(5, 3), "buffer": r(6), "count": torch.tensor(3)}
    return {"w": distribute_tensor(full["w"], mesh, [Shard(0)]), "buffer": full["buffer"].clone(),
            "count": full["count"].clone()}, full


def case_empty_tensors_w2(rank, world):
    """Tensors of no elements."""
    mesh = init_device_mesh("cpu", (2,))
    r = Random(15)
    full = {"none": torch.empty(0, 4), "inner_none": torch.empty(4, 0), "some": r(3)}
    return by_hand(full, mesh, [Shard(0)]), full


CASES = {name[len("case_"):]: fn for name, fn in list(globals().items()) if name.startswith("case_")}


def world_size(name):
    return int(name.rpartition("_w")[2])


def worker(rank, world, name, out, meet):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=world)
    sharded, full = CASES[name](rank, world)
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    torch.save(sharded, "%s/model_world_size_%d_rank_%d.pt" % (folder, world, rank))
    if rank == 0:
        with open(folder + "/fsdp_config.json", "w") as config:
            json.dump({"FSDP_version": 2, "world_size": world}, config, indent=4)
        save_file({k: v.detach().contiguous() for k, v in full.items()},
                  folder + "/expected.safetensors")
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--case", nargs="*", default=list(CASES))
    arguments = parser.parse_args()
    failed = 0
    for name in arguments.case:
        world = world_size(name)
        try:
            with tempfile.TemporaryDirectory() as folder:
                mp.start_processes(worker, args=(world, name, arguments.out, folder + "/meet"),
                                   nprocs=world, start_method="fork")
            print("ok  ", name, flush=True)
        except Exception as error:  # each case is reported, then the rest is made
            failed += 1
            print("FAIL", name, str(error), flush=True)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Make golden/: small .pt files that need a process group of many ranks, written by real PyTorch.

    python generate.py golden

One process plays one rank of many (the fake backend), so that sliced and flattened meshes and
ShardedTensors can be saved without starting them all. What PyTorch itself says of each object goes to
golden/expected.txt, one line each, in the notation of the test that reads them. Needs torch 2.13.
"""
import collections
import datetime
import decimal
import io
import pathlib
import sys
import uuid

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed._shard.sharded_tensor import Shard as LocalShard
from torch.distributed._shard.sharded_tensor import ShardedTensor
from torch.distributed._shard.sharded_tensor import TensorProperties
from torch.distributed._shard.sharding_spec import ChunkShardingSpec
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
import torch.distributed.fsdp   # before what it imports in a circle
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry
from torch.distributed.tensor.parallel.fsdp import _chunk_tensor
from torch.distributed.tensor.placement_types import _MaskPartial, _StridedShard
from torch.testing._internal.distributed.fake_pg import FakeStore

WORLD, RANK = 24, 17
expected = []


def say(file, name, text):
    expected.append("%s %s %s" % (file, name, text))


def describe(mesh):
    ranks = mesh.mesh
    return " ".join(map(str, [list(ranks.shape), *ranks.flatten().tolist(), *(mesh.mesh_dim_names or ())]))


def on(mesh, placements=None, shape=None):
    """A DTensor of a 1-element local tensor; what it says of itself is all that matters."""
    placements = placements or [Replicate()] * mesh.ndim
    return DTensor.from_local(torch.ones(1), mesh, placements, run_check=False,
                              **({"shape": shape, "stride": (1,)} if shape else {}))


def meshes(out):
    """Sliced, flattened, permuted and degenerate meshes of 24 ranks, seen from rank 17."""
    root = init_device_mesh("cpu", (2, 3, 4), mesh_dim_names=("pp", "dp", "tp"))
    named = {"root": root}
    for names in ("pp", "dp", "tp", ("pp", "dp"), ("dp", "tp"), ("pp", "tp")):
        named["slice_" + "_".join([names] if isinstance(names, str) else names)] = root[names]
    named["flat_dp_tp"] = root["dp", "tp"]._flatten("dp_tp")
    named["flat_pp_dp"] = root["pp", "dp"]._flatten("pp_dp")
    named["flat_pp_tp"] = root["pp", "tp"]._flatten("pp_tp")   # not adjacent: an axis of two strides
    named["pp_and_flat"] = root["pp", "dp_tp"]
    named["ones"] = init_device_mesh("cpu", (1, WORLD, 1), mesh_dim_names=("a", "b", "c"))
    named["permuted"] = DeviceMesh("cpu", torch.arange(WORLD).view(4, 6).t().contiguous())
    named["part"] = DeviceMesh("cpu", torch.tensor([[17, 3], [9, 1]]))
    named["elsewhere"] = DeviceMesh("cpu", torch.tensor([2, 5]))   # rank 17 is no member
    torch.save({k: on(m) for k, m in named.items()}, out / "meshes.pt")
    for k, m in named.items():
        say("meshes.pt", k, describe(m))


def placements(out):
    mesh = init_device_mesh("cpu", (2, 3, 4), mesh_dim_names=("pp", "dp", "tp"))
    ops = {op: on(mesh, [Partial(op), Replicate(), Replicate()]) for op in ("sum", "avg", "min", "max", "product")}
    ordered = on(mesh, [Shard(0), Replicate(), Shard(0)])
    s = ordered._spec
    ordered._spec = DTensorSpec(s.mesh, s.placements, s.tensor_meta,
                                shard_order=(ShardOrderEntry(0, (2, 0)),))
    torch.save({**ops, "ordered": ordered, "strided": on(mesh, [_StridedShard(0, split_factor=4), Replicate(), Shard(0)])},
               out / "placements.pt")
    torch.save({"mask": on(mesh, [_MaskPartial(offset_shape=torch.Size([1]), offset_dim=0), Replicate(), Replicate()])},
               out / "mask_partial.pt")
    torch.save({"red_op_type": [dist.ReduceOp.RedOpType.SUM, dist.ReduceOp.RedOpType.MAX]}, out / "red_op_type.pt")


def sharded(out):
    """ChunkShardingSpec's empty shards beyond the end, and a ShardedTensor in a ShardedTensor."""
    group = dist.new_group([15, 16, 17, 18])
    spec = ChunkShardingSpec(dim=0, placements=["rank:%d/cpu" % r for r in (15, 16, 17, 18)])
    chunked = spec.build_metadata(torch.Size([5, 2]), TensorProperties(dtype=torch.float32))
    beyond = chunked.shards_metadata[3].shard_offsets   # [6, 0], which today's check refuses
    chunked.shards_metadata[3].shard_offsets = [5, 0]
    mine = chunked.shards_metadata[2]
    st = ShardedTensor._init_from_local_shards_and_global_metadata(
        [LocalShard(torch.arange(2.).view(mine.shard_sizes), mine)], chunked, process_group=group)
    chunked.shards_metadata[3].shard_offsets = beyond
    torch.save({"chunked": st}, out / "sharded.pt")
    for m in chunked.shards_metadata:
        say("sharded.pt", "chunked", "%s+%s@rank%d" % (m.shard_offsets, m.shard_sizes, m.placement.rank()))

    # FSDP1 over tensor parallelism: what torch.distributed.tensor.parallel.fsdp makes of a DTensor
    # (rows 68-71 of 96 are this rank's) when FSDP rank 1 of 2 chunks it: rows 70 and 71. It takes
    # ranks of the group for ranks of the world, so that the group must be the world.
    rows = DTensor.from_local(torch.arange(12.).view(4, 3), DeviceMesh("cpu", torch.arange(WORLD)),
                              [Shard(0)], run_check=False)
    torch.accelerator.device_count = lambda: 1
    torch.save({"nested": _chunk_tensor(rows, 1, 2, 1, dist.new_group([15, 17]))}, out / "sharded_nested.pt")


def objects(out):
    """Harmless classes of training states: kept by name."""
    values = {
        "device": torch.device("cuda", 1), "dtype": torch.float32, "size": torch.Size([2, 3]),
        "layout": torch.strided,
        "generator": torch.Generator().manual_seed(5),
        "bytes_io": io.BytesIO(b"abc"), "complex": 1 + 2j, "counter": collections.Counter("aab"),
        "deque": collections.deque([1, 2], 3), "frozen": frozenset([1]), "bytearray": bytearray(b"ab"),
        "empty_bytes": b"", "ordered": collections.OrderedDict(a=1), "ellipsis": ..., "range": range(3),
        "datetime": datetime.datetime(2020, 1, 2), "timedelta": datetime.timedelta(1),
        "path": pathlib.PurePosixPath("/a/b"), "decimal": decimal.Decimal("1.5"),
        "uuid": uuid.UUID(int=5), "np_scalar": np.float32(2), "np_bool": np.bool_(True),
        "np_array": np.arange(3), "np_rng": np.random.default_rng(0), "np_state": np.random.RandomState(0),
        "typed_storage": torch.arange(3.).storage(), "parameter": torch.nn.Parameter(torch.ones(2)),
        "buffer": torch.nn.Buffer(torch.ones(2)), "float8": torch.ones(2).to(torch.float8_e4m3fn),
        "uint16": torch.ones(2).to(torch.uint16), "empty": torch.empty(0, 3), "expanded": torch.ones(1).expand(4),
    }
    with_state = torch.nn.Parameter(torch.ones(2))
    with_state.note = "kept by Python"
    values["parameter_with_state"] = with_state
    torch.save(values, out / "objects.pt")
    torch.save(values, out / "objects_protocol5.pt", pickle_protocol=5)
    torch.save({"c": torch.ones(2, dtype=torch.complex64).conj()}, out / "conj.pt")
    torch.serialization.set_crc32_options(False)
    torch.save({"a": torch.arange(3.)}, out / "no_crc.pt")
    torch.serialization.set_crc32_options(True)
    torch.save({"n": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])}, out / "nested_tensor.pt")
    torch.save({"n": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)}, out / "jagged.pt")
    torch.save({"s": torch.eye(3).to_sparse_csr()}, out / "sparse_csr.pt")
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), str(out / "torchscript.pt"))


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(exist_ok=True)
    dist.init_process_group("fake", store=FakeStore(), rank=RANK, world_size=WORLD)
    for make in (meshes, placements, sharded, objects):
        make(out)
    (out / "expected.txt").write_text("\n".join(expected) + "\n")


main()

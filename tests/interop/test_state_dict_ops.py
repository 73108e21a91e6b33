"""iterate and gather do what torch.distributed._state_dict_utils does, on the same inputs."""
import itertools
import math
import random

import pytest
import torch
from torch.distributed import _state_dict_utils as reference
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

import torch_ranks as harness

SIZES = [2, 4]


def check(ranks, operation, folder, rounded=False, **arguments):
    """Runs the operation on FOLDER/in, with threads and processes as ranks, and compares each rank's
    result with FOLDER/expected."""
    for backend in harness.BACKENDS:
        code, text = harness.run_program(operation, folder, ranks.size, backend=backend, **arguments)
        assert code == 0, text
        assert ranks.run(harness.compare, folder, rounded) == [None] * ranks.size


def save(folder, rank, given, expected):
    torch.save(given, harness.rank_file(folder, "in", rank))
    torch.save(expected, harness.rank_file(folder, "expected", rank))


def nested_state(rank, size, scale=1.0):
    """All kinds of values that PyTorch's type check lets through."""
    mesh = init_device_mesh("cpu", (size,))
    local = scale * torch.arange(6.0).reshape(2, 3) + rank
    return {
        "model": {"w": DTensor.from_local(local, mesh, [Shard(0)]),
                  "r": DTensor.from_local(torch.ones(3) * scale, mesh, [Replicate()]),
                  "plain": torch.arange(5, dtype=torch.int64) + rank},
        "list": [torch.tensor(scale), (1, 2.5, "text", None, True), [], {}],
        "bytes": b"\x00\xff", 3: "a key that is no text",
        "empty": torch.empty(0, 4, dtype=torch.bfloat16),
        "view": torch.arange(12.0).reshape(3, 4).t()[1:3],
    }


def iterate(rank, size, folder, with_companion, ranks_only, cpu_offload):
    state = nested_state(rank, size)
    given = {"state": state}
    companion = None
    if with_companion:
        given["companion"] = companion = nested_state(rank, size, scale=-3.0)
    torch.save(given, harness.rank_file(folder, "in", rank))
    expected = reference._iterate_state_dict(
        state, reference._identity_func, reference._identity_func, reference._identity_func,
        cpu_offload=cpu_offload, companion_obj=companion, ranks_only=ranks_only)
    torch.save(expected, harness.rank_file(folder, "expected", rank))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("with_companion", [False, True])
@pytest.mark.parametrize("ranks_only", [(), (1,)])
def test_iterate(torch_ranks, tmp_path, size, with_companion, ranks_only):
    ranks = torch_ranks(size)
    ranks.run(iterate, str(tmp_path), with_companion, ranks_only, True)
    check(ranks, "iterate_state_dict", tmp_path, cpu_offload=1,
          ranks_only=",".join(map(str, ranks_only)))


def random_placements(generator, size, shape):
    """A mesh of 1 or 2 dimensions over all ranks and placements that PyTorch takes."""
    meshes = [(size,)] if size == 2 else [(4,), (2, 2), (4, 1)]
    mesh_shape = generator.choice(meshes)
    choices = [Replicate()] + [Shard(d) for d in range(len(shape))]
    return mesh_shape, [generator.choice(choices) for _ in mesh_shape]


def gather_layouts(rank, size, folder, seed, ranks_only, cpu_offload):
    """40 DTensors of random layouts, uneven and empty ones among them, and other values."""
    generator = random.Random(seed)
    meshes = {}
    state = {"nested": {"list": [torch.arange(3.0), {"n": 7}], "tuple": (None, "text", 2.5)},
             "plain": torch.full((2, 2), float(rank))}
    for i in range(40):
        shape = tuple(generator.choice([0, 1, 2, 3, 5, 7, 8, 12]) for _ in range(generator.choice([1, 2, 3])))
        dtype = generator.choice([torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float64])
        mesh_shape, placements = random_placements(generator, size, shape)
        mesh = meshes.setdefault(mesh_shape, init_device_mesh("cpu", mesh_shape))
        whole = torch.arange(max(1, math.prod(shape)))[:math.prod(shape)].reshape(shape).to(dtype)
        state["nested"]["w%d" % i] = distribute_tensor(whole, mesh, placements)
    if size == 4:  # submeshes: each row has its own; other values and another order of keys
        rows = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        local = torch.arange(6.0).reshape(2, 3) + 10 * rank
        state["row"] = DTensor.from_local(local, rows["tp"], [Shard(1)])
        state["column"] = DTensor.from_local(local.t(), rows["dp"], [Shard(0)])
        state["twice"] = distribute_tensor(torch.arange(22.0).reshape(11, 2), rows, [Shard(0), Shard(0)])
    save(folder, rank, state, reference._gather_state_dict(
        state, ranks_only=ranks_only, cpu_offload=cpu_offload))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ranks_only", [(), (0,), (1,), (0, 1)])
def test_gather(torch_ranks, tmp_path, size, ranks_only):
    ranks = torch_ranks(size)
    seed = 100 * size + sum(ranks_only)
    ranks.run(gather_layouts, str(tmp_path), seed, ranks_only, True)
    check(ranks, "gather_state_dict", tmp_path, cpu_offload=1,
          ranks_only=",".join(map(str, ranks_only)))


def gather_strided(rank, size, folder):
    """What fully_shard() makes of tensor-parallel parameters."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Linear(8, 6))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
    for layer in model:
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    state = model.state_dict()
    save(folder, rank, dict(state), dict(reference._gather_state_dict(state)))


def test_gather_fsdp_over_tensor_parallelism(torch_ranks, tmp_path):
    ranks = torch_ranks(4)
    ranks.run(gather_strided, str(tmp_path))
    check(ranks, "gather_state_dict", tmp_path)


def gather_addends(rank, size, folder, integers):
    mesh = init_device_mesh("cpu", (size,))
    plane = init_device_mesh("cpu", (2, size // 2))
    torch.manual_seed(rank)
    state = {}
    for op in ["sum", "max", "min", "product"] + ([] if integers else ["avg"]):
        local = torch.randint(-9, 9, (5, 3)) if integers else torch.randn(5, 3)
        state[op] = DTensor.from_local(local, mesh, [Partial(op)])
        state[op + "_2d"] = DTensor.from_local(local, plane, [Partial(op), Partial(op)])
        state[op + "_cut"] = DTensor.from_local(local, plane, [Partial(op), Shard(1)])
    save(folder, rank, state, reference._gather_state_dict(state))


# Two addends have one sum; of four, PyTorch does not say in which order it adds them. Minimum,
# maximum and integers are the same in any order.
@pytest.mark.parametrize("size, integers, rounded", [(2, False, True), (4, True, False)])
def test_gather_addends(torch_ranks, tmp_path, size, integers, rounded):
    ranks = torch_ranks(size)
    ranks.run(gather_addends, str(tmp_path), integers)
    check(ranks, "gather_state_dict", tmp_path, rounded=rounded)


def gather_float_addends(rank, size, folder):
    """Of four float addends the expected value is what float64 makes of them, rounded once."""
    plane = init_device_mesh("cpu", (2, 2))
    given, expected = {}, {}
    for dtype in [torch.float32, torch.bfloat16, torch.float16]:
        for op in ["sum", "avg", "product"]:
            # Positive: float32 sums of four have no more than about one rounding's error then.
            all_locals = [(torch.rand(4, 3, generator=torch.Generator().manual_seed(r)) + 0.5)
                          .to(dtype) for r in range(size)]
            wide = torch.stack(all_locals).double()
            reduced = {"sum": wide.sum(0), "avg": wide.mean(0), "product": wide.prod(0)}[op]
            name = "%s_%s" % (op, dtype)
            given[name] = DTensor.from_local(all_locals[rank], plane, [Partial(op), Partial(op)])
            expected[name] = reduced.to(dtype)
    save(folder, rank, given, expected)


def test_gather_float_addends_within_one_rounding(torch_ranks, tmp_path):
    ranks = torch_ranks(4)
    ranks.run(gather_float_addends, str(tmp_path))
    check(ranks, "gather_state_dict", tmp_path, rounded=True)


def sharded_rows(rank, size, rows, columns):
    """As FSDP1 makes it: chunks of rows, no shard on ranks beyond."""
    from torch.distributed._shard.sharded_tensor import (
        Shard as TensorShard, ShardedTensor, ShardMetadata, ShardedTensorMetadata, TensorProperties)
    whole = torch.arange(float(rows * columns)).reshape(rows, columns)
    chunks = whole.chunk(size)
    start, metadata = 0, []
    for owner, chunk in enumerate(chunks):
        metadata.append(ShardMetadata([start, 0], list(chunk.shape), "rank:%d/cpu" % owner))
        start += len(chunk)
    shards = [TensorShard(chunks[rank].clone(), metadata[rank])] if rank < len(chunks) else []
    return ShardedTensor._init_from_local_shards_and_global_metadata(
        shards, ShardedTensorMetadata(metadata, whole.shape, TensorProperties(dtype=whole.dtype)))


def part_of_its_own(array, placements, rank, shape):
    """Numbers that no other rank has, but for replicas."""
    sizes = list(shape)
    for d, placement in enumerate(placements):
        if isinstance(placement, (Shard, _StridedShard)):
            sizes[placement.dim] //= array.shape[d]
    replica = tuple(slice(0, 1) if isinstance(p, Replicate) else slice(c, c + 1)
                    for p, c in zip(placements, (array == rank).nonzero()[0].tolist()))
    seed = int(array[replica])
    return torch.randint(-1000, 1000, sizes, generator=torch.Generator().manual_seed(seed))


def gather_over_ranks_in_any_order(rank, size, folder, orders):
    """What all ranks read alike goes into the files; returns how much of all that is."""
    kinds = [Partial("sum"), Partial("max"), Replicate(), Shard(0), Shard(1),
             _StridedShard(0, split_factor=2)]
    state, expected, count = {}, {}, 0
    for order in orders:
        array = torch.tensor(order).reshape(2, size // 2)
        mesh = DeviceMesh("cpu", array)
        for placements in itertools.product(kinds, repeat=2):
            first, second = placements
            if (first.is_partial() and second.is_partial() and first != second
                    or isinstance(first, _StridedShard) and isinstance(second, _StridedShard)):
                continue  # Partials do not mix, and nothing makes two StridedShards of two shards
            count += 1
            local = part_of_its_own(array, placements, rank, (8, 4))
            tensor = DTensor.from_local(local, mesh, placements, run_check=False,
                                        shape=torch.Size([8, 4]), stride=(4, 1))
            whole = tensor.full_tensor()
            of_ranks = [torch.empty_like(whole) for _ in range(size)]
            torch.distributed.all_gather(of_ranks, whole)
            if all(torch.equal(each, whole) for each in of_ranks):
                name = "%s %s" % (order, placements)
                state[name], expected[name] = tensor, whole
    save(folder, rank, state, expected)
    return len(state), count


# Where a line of the mesh array has ranks at different positions of another line, PyTorch's ranks read
# different tensors; those there is nothing to compare with.
def test_gather_over_ranks_in_any_order(torch_ranks, tmp_path):
    ranks = torch_ranks(4)
    orders = list(itertools.permutations(range(4)))[1::4]
    returned = ranks.run(gather_over_ranks_in_any_order, str(tmp_path), orders)
    alike, count = returned[0]
    assert alike > count / 2
    check(ranks, "gather_state_dict", tmp_path)


def gather_sharded(rank, size, folder, rows, ranks_only):
    state = {"a": sharded_rows(rank, size, rows, 3), "list": [sharded_rows(rank, size, 2 * rows, 1)]}
    save(folder, rank, state, reference._gather_state_dict(state, ranks_only=ranks_only))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rows", [8, 5, 1])
@pytest.mark.parametrize("ranks_only", [(), (1,)])
def test_gather_sharded_tensors(torch_ranks, tmp_path, size, rows, ranks_only):
    ranks = torch_ranks(size)
    ranks.run(gather_sharded, str(tmp_path), rows, ranks_only)
    check(ranks, "gather_state_dict", tmp_path, ranks_only=",".join(map(str, ranks_only)))


def all_gather_sharded(rank, size, folder, rows):
    tensor = sharded_rows(rank, size, rows, 4)
    save(folder, rank, tensor, reference._all_gather_sharded_tensor(tensor))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rows", [8, 5, 1])
def test_all_gather_sharded_tensor(torch_ranks, tmp_path, size, rows):
    ranks = torch_ranks(size)
    ranks.run(all_gather_sharded, str(tmp_path), rows)
    check(ranks, "all_gather_sharded_tensor", tmp_path)

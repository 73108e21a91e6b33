"""Broadcast, distribute and load bring to each rank what PyTorch brings, bit for bit."""
import random

import pytest
import torch
from torch.distributed import _state_dict_utils as reference
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

import checkpoints
import torch_ranks as harness
from test_state_dict_ops import SIZES, check

CPU = torch.device("cpu")
DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.complex64]
KINDS = ["plain", "meta", "dtensor", "meta_dtensor", "missing", "none", "number"]


def whole_tensor(rng, shape, dtype):
    generator = torch.Generator().manual_seed(rng.randrange(1 << 30))
    values = torch.randint(-1000, 1000, shape, generator=generator)
    return values.to(dtype) if dtype is not torch.bool else values > 0


def layout_on(rng, size, shape, strided):
    """A mesh over all ranks and placements.

    `strided`: dimensions that may be cut by a _StridedShard, which is alone on its mesh then.
    """
    dims = max(len(shape), 1)
    if strided and rng.random() < 0.5:
        return (DeviceMesh("cpu", list(range(size))),
                [_StridedShard(rng.choice(strided), split_factor=2)])
    meshes = [torch.arange(size)] + ([torch.arange(size).reshape(2, size // 2)] if size > 2 else [])
    array = rng.choice(meshes)
    placements = [rng.choice([Replicate()] + [Shard(d) for d in range(dims)]) for _ in array.shape]
    return DeviceMesh("cpu", array), placements


def states(rank, size, seed, by_broadcast):
    """The full state, and this rank's local one; the ranks draw the same numbers.

    PyTorch's broadcast is wrong for tensors that lie transposed, and for _StridedShards, which its
    distribute takes only where the dimension is divisible.
    """
    rng = random.Random(seed)
    full, local = {}, {}
    for i in range(14):
        name = "layer.%d" % i
        shape = [rng.choice([0, 1, 2, 3, 5, 7, 2 * size]) for _ in range(rng.randrange(1, 4))]
        full[name] = whole_tensor(rng, shape, rng.choice(DTYPES))
        if len(shape) == 2 and rng.random() < 0.3 and not by_broadcast:
            full[name] = full[name].t()
        shape = tuple(full[name].shape)
        strided = [] if by_broadcast else [d for d, n in enumerate(shape) if n == 2 * size]
        mesh, placements = layout_on(rng, size, shape, strided)
        kind = rng.choice(KINDS)
        absent = rng.randrange(size)  # a rank that lacks it, where that is allowed
        empty = torch.zeros(shape, dtype=full[name].dtype,
                            device="meta" if kind.startswith("meta") else "cpu")
        if kind in ("plain", "meta") and rank != absent:
            local[name] = empty
        elif kind.endswith("dtensor"):
            local[name] = distribute_tensor(empty, mesh, placements, src_data_rank=None)
        elif kind == "none":
            local[name] = None
        elif kind == "number":
            local[name] = 3
    full.update({"step": 7, "text": "x", "nested": {"a": [1, (2.5, None)], "b": b"\x00"},
                 "scalar": torch.tensor(2.5), "counter": torch.tensor(5), "elsewhere": 1})
    local.update({"step": 0, "nested": None, "scalar": torch.tensor(0.0), "own": torch.ones(2),
                  "own number": 4})
    return full, local


def save_given(folder, rank, local, full=None):
    """DTensors on the meta device go as ones of zeros: read_pt() does not know such files."""
    meta = {name for name, value in local.items() if torch.is_tensor(value) and value.is_meta}
    saved = {name: like_zeros(value) if name in meta else value for name, value in local.items()}
    torch.save({"full": full or {}, "local": saved, "meta": dict.fromkeys(meta)},
               harness.rank_file(folder, "in", rank))


def like_zeros(tensor):
    zeros = torch.zeros(tensor.shape, dtype=tensor.dtype)
    if not isinstance(tensor, DTensor):
        return zeros
    return distribute_tensor(zeros, tensor.device_mesh, tensor.placements, src_data_rank=None)


def broadcast(rank, size, folder, seed, strict):
    full, local = states(rank, size, seed, by_broadcast=True)
    save_given(folder, rank, local, full if rank == 0 else {})
    reference._broadcast_state_dict(full if rank == 0 else {}, local, CPU, strict=strict)
    torch.save(local, harness.rank_file(folder, "expected", rank))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(8))
def test_broadcast(torch_ranks, tmp_path, size, seed):
    ranks = torch_ranks(size)
    strict = seed % 2
    ranks.run(broadcast, str(tmp_path), seed, bool(strict))
    check(ranks, "broadcast_state_dict", tmp_path, strict=strict)


def distribute(rank, size, folder, seed):
    full, local = states(rank, size, seed, by_broadcast=False)
    save_given(folder, rank, local, full)
    reference._distribute_state_dict(full, local, CPU)
    torch.save(local, harness.rank_file(folder, "expected", rank))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(8))
def test_distribute(torch_ranks, tmp_path, size, seed):
    ranks = torch_ranks(size)
    ranks.run(distribute, str(tmp_path), seed)
    check(ranks, "distribute_state_dict", tmp_path)


def spread_where_pytorch_is_wrong(rank, size, folder, whole, strided):
    """Expected is what distribute_tensor makes; returns whether PyTorch's broadcast does."""
    mesh = DeviceMesh("cpu", list(range(size)))
    placements = [_StridedShard(0, split_factor=2) if strided else Shard(0)]
    zeros = torch.zeros(whole.shape)
    local = {"w": distribute_tensor(zeros, mesh, placements, src_data_rank=None)}
    full = {"w": whole}
    torch.save({"full": full, "local": local, "meta": {}}, harness.rank_file(folder, "in", rank))
    expected = distribute_tensor(whole, mesh, placements, src_data_rank=None)
    torch.save({"w": expected}, harness.rank_file(folder, "expected", rank))
    try:
        reference._broadcast_state_dict(full if rank == 0 else {}, local, CPU)
        return torch.equal(local["w"].to_local(), expected.to_local())
    except RuntimeError:
        return False


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("operation", ["broadcast_state_dict", "distribute_state_dict"])
@pytest.mark.parametrize("rows, strided", [(8, True), (7, True), (11, True), (6, False)])
def test_where_pytorch_is_wrong(torch_ranks, tmp_path, size, operation, rows, strided):
    whole = torch.arange(rows * 3.0).reshape(rows, 3)
    if not strided:
        whole = torch.arange(rows * 3.0).reshape(3, rows).t()
    ranks = torch_ranks(size)
    assert not all(ranks.run(spread_where_pytorch_is_wrong, str(tmp_path), whole, strided))
    check(ranks, operation, tmp_path)


def spread_over_ranks_in_any_order(rank, size, folder, order, rows):
    """Expected is the part from which full_tensor() makes the whole; returns whether it does, and
    whether PyTorch's _distribute_tensors brings that part. (Its _distribute_state_dict hangs.)
    """
    whole = torch.arange(rows * 3.0).reshape(rows, 3)
    mesh = DeviceMesh("cpu", order)
    part = whole.tensor_split([-(-len(whole) // size) * i for i in range(1, size)])[rank].clone()

    def dtensor(local):
        return DTensor.from_local(local, mesh, [Shard(0)], shape=whole.shape, stride=whole.stride())

    local, expected = {"w": dtensor(torch.zeros_like(part))}, dtensor(part)
    torch.save({"full": {"w": whole}, "local": local, "meta": {}},
               harness.rank_file(folder, "in", rank))
    torch.save({"w": expected}, harness.rank_file(folder, "expected", rank))
    pairs = {"w": (local["w"], whole)}
    try:
        reference._distribute_tensors(pairs, ["w"], CPU)
        agrees = torch.equal(pairs["w"].to_local(), part)
    except RuntimeError:  # of another size
        agrees = False
    return torch.equal(expected.full_tensor(), whole), agrees


# PyTorch's collectives count by the sorted ranks of a mesh, its _distribute_tensors by the mesh array.
@pytest.mark.parametrize("order", [[1, 0], [3, 1, 2, 0]])
@pytest.mark.parametrize("operation", ["broadcast_state_dict", "distribute_state_dict"])
@pytest.mark.parametrize("rows", [8, 7, 5, 3])
def test_what_is_spread_is_what_full_tensor_reads(torch_ranks, tmp_path, order, operation, rows):
    ranks = torch_ranks(len(order))
    returned = ranks.run(spread_over_ranks_in_any_order, str(tmp_path), order, rows)
    assert [full for full, _ in returned] == [True] * len(order)
    assert not all(agrees for _, agrees in returned)
    check(ranks, operation, tmp_path)


def prepare_load(rank, size, folder, case, seed):
    rng = random.Random(seed)
    local, expected = {}, {}
    for name, whole in checkpoints.read_file(case / "expected.safetensors").items():
        mesh, placements = layout_on(rng, size, whole.shape, list(range(whole.dim())))
        device = rng.choice(["cpu", "meta"])
        empty = torch.zeros(whole.shape, dtype=whole.dtype, device=device)
        if rng.random() < 0.3 or whole.dim() == 0:
            local[name], expected[name] = empty, whole
        else:
            local[name] = distribute_tensor(empty, mesh, placements, src_data_rank=None)
            expected[name] = distribute_tensor(whole, mesh, placements, src_data_rank=None)
    save_given(folder, rank, local)
    torch.save(expected, harness.rank_file(folder, "expected", rank))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["fsdp2_fp32_w4", "hsdp_bf16_w4", "fsdp1_shardedtensor_fp32_w4",
                                  "tp_uneven_fp32_w12", "placements_fp32_w4"])
def test_load(torch_ranks, tmp_path, size, name):
    case = checkpoints.FIXTURES / "torch-2.13.0" / name
    ranks = torch_ranks(size)
    ranks.run(prepare_load, str(tmp_path), case, size)
    check(ranks, "load_into_ranks", tmp_path, checkpoint=case)

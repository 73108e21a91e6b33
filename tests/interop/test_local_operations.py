"""What a rank does with a state dict alone, and snapshots, against PyTorch on the same inputs.

Snapshots are held against verl's two functions (verl 0.9.1, verl/utils/fsdp_utils.py) in plain PyTorch.
"""
import copy

import pytest
import torch
from torch.distributed import _state_dict_utils as reference
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import torch_ranks as harness
from test_state_dict_ops import SIZES, check, nested_state, save


def zeroed(value):
    """The same tree, its tensors all zero: the reference leaves in them what was there."""
    if isinstance(value, DTensor):
        value.to_local().zero_()
    elif isinstance(value, torch.Tensor):
        value.zero_()
    elif isinstance(value, dict):
        for item in value.values():
            zeroed(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            zeroed(item)
    return value


def create(rank, size, folder):
    state = nested_state(rank, size)
    save(folder, rank, {"state": state}, zeroed(reference._create_cpu_state_dict(state)))


def copied(rank, size, folder):
    state, to = nested_state(rank, size), nested_state(rank, size, scale=-3.0)
    torch.save({"from": state, "to": to}, harness.rank_file(folder, "in", rank))
    returned = reference._copy_state_dict(state, to)
    torch.save({"returned": returned, "to": to}, harness.rank_file(folder, "expected", rank))


def offload(rank, size, folder):
    state = nested_state(rank, size)
    save(folder, rank, {"state": state}, reference._offload_state_dict_to_cpu(state))


def similarity(rank, size, folder):
    pairs = [[{"a": torch.ones(2), "b": [1]}, {"a": torch.zeros(2), "b": [1]}],
             [{"a": torch.ones(2)}, {"a": torch.ones(3)}],
             [{"a": torch.ones(2)}, {"a": torch.ones(2, dtype=torch.float64)}],
             [{"a": torch.ones(2)}, {"b": torch.ones(2)}],
             [{"a": [torch.ones(2)]}, {"a": [torch.ones(2), torch.ones(2)]}],
             [nested_state(rank, size)["model"], nested_state(rank, size, scale=2.0)["model"]]]
    # The reference writes into what it compares.
    expected = [reference._check_state_dict_similarity(a, copy.deepcopy(b)) for a, b in pairs]
    assert True in expected and False in expected
    save(folder, rank, {"pairs": pairs}, expected)


def flatten(rank, size, folder):
    state = nested_state(rank, size)
    flat, mapping = reference._flatten_state_dict(state)
    part = list(flat)[1::2]
    nested = reference._unflatten_state_dict({key: flat[key] for key in part}, mapping)
    save(folder, rank, {"state": state, "part": part},
         {"flat": flat, "paths": list(mapping.items()), "part": nested})


OPERATIONS = {"create_cpu_state_dict": create, "copy_state_dict": copied,
              "offload_state_dict_to_cpu": offload, "check_state_dict_similarity": similarity,
              "flatten_state_dict": flatten}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_local(torch_ranks, tmp_path, size, operation):
    ranks = torch_ranks(size)
    ranks.run(OPERATIONS[operation], str(tmp_path))
    check(ranks, operation, tmp_path)


def test_create_in_shared_memory(torch_ranks, tmp_path):
    ranks = torch_ranks(2)
    ranks.run(create, str(tmp_path))
    check(ranks, "create_cpu_state_dict", tmp_path, share_memory=1)


def model(rank, size, seed):
    """Parameters and buffers of a model: uneven shards, mixed placements, views, no elements."""
    torch.manual_seed(seed)
    mesh = init_device_mesh("cpu", (size,))
    return {
        "buffer": torch.randn(4, 3).t(),
        "uneven": distribute_tensor(torch.randn(2 * size + 1, 3), mesh, [Shard(0)]),
        "norm": distribute_tensor(torch.randn(5), mesh, [Replicate()]),
        "columns": distribute_tensor(torch.randn(2, 3 * size).bfloat16(), mesh, [Shard(1)]),
        "few": distribute_tensor(torch.arange(size - 1), mesh, [Shard(0)]),
        "scalar": torch.tensor(seed),
    }


def local_copy(value):
    return (value.to_local() if isinstance(value, DTensor) else value).detach().clone()


def snapshot(rank, size, folder):
    saved, later = model(rank, size, 1), model(rank, size, 2)
    later["new"] = torch.ones(2)
    torch.save({"model": saved, "later": later}, harness.rank_file(folder, "in", rank))
    kept = {name: (local_copy(value), value._spec if isinstance(value, DTensor) else None)
            for name, value in saved.items()}
    skipped = []
    for name, value in later.items():
        if name not in kept:
            skipped.append(name)
        elif isinstance(value, DTensor):
            local, spec = kept[name]
            assert spec.mesh == value.device_mesh and spec.placements == value.placements
            value.to_local().copy_(local)
        else:
            value.copy_(kept[name][0])
    torch.distributed.barrier()
    torch.save({"later": later, "skipped": skipped}, harness.rank_file(folder, "expected", rank))


@pytest.mark.parametrize("size", SIZES)
def test_snapshot(torch_ranks, tmp_path, size):
    ranks = torch_ranks(size)
    ranks.run(snapshot, str(tmp_path))
    check(ranks, "snapshot", tmp_path)


def snapshot_of_other_placements(rank, size, folder):
    saved, later = model(rank, size, 1), model(rank, size, 2)
    if rank == 1:
        later["norm"] = DTensor.from_local(torch.zeros(5), saved["norm"].device_mesh, [Shard(0)])
    torch.save({"model": saved, "later": later}, harness.rank_file(folder, "in", rank))


def test_snapshot_that_does_not_fit_on_one_rank(torch_ranks, tmp_path):
    ranks = torch_ranks(2)
    ranks.run(snapshot_of_other_placements, str(tmp_path))
    for backend in harness.BACKENDS:
        code, text = harness.run_program("snapshot", tmp_path, 2, backend=backend)
        assert code == 3
        lines = text.splitlines()
        assert len(lines) == 2 and lines[0] == lines[1]
        assert lines[0].startswith("invalid_argument: rank 1: ") and "norm" in lines[0]


def snapshot_input(rank, size, folder):
    saved = model(rank, size, 3)
    save(folder, rank, {"model": saved}, saved)
    return {name: local_copy(value) for name, value in saved.items()}


@pytest.mark.parametrize("size", SIZES)
def test_snapshot_on_disk(torch_ranks, tmp_path, size):
    from safetensors.torch import load_file
    ranks = torch_ranks(size)
    locals_of_ranks = ranks.run(snapshot_input, str(tmp_path))
    check(ranks, "snapshot_on_disk", tmp_path, disk=tmp_path / "disk")
    for rank, expected in enumerate(locals_of_ranks):
        name = "snapshot_world_size_%d_rank_%d.safetensors" % (size, rank)
        read = load_file(tmp_path / "disk" / name)
        assert sorted(read) == sorted(expected)
        assert harness.difference({key: read[key] for key in expected}, expected) is None

"""iterate and gather do what torch.distributed._state_dict_utils does, on the same inputs."""
import pytest
import torch
from torch.distributed import _state_dict_utils as reference
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

import torch_ranks as harness

SIZES = [2, 4]


def check(ranks, operation, folder, rounded=False, **arguments):
    """Runs the operation on FOLDER/in, with threads and processes as ranks, and compares each rank's
    result with FOLDER/expected."""
    for backend in ("threads", "gloo"):
        code, text = harness.run_program(operation, folder, ranks.size, backend=backend, **arguments)
        if backend == "gloo" and "this build has no Gloo" in text:
            continue
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

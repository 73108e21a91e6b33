"""Compares the box rule with the elements that PyTorch's own DTensor code puts on every rank.

    check.py --program build/tests/interop/box_rule/box_rule [--cases 20000] [--seed N]

Each case is a random shape, mesh and list of placements. PyTorch fills the local tensor of every
rank from an arange, so that each local element is the global index it came from; the program fills
it box by box. Shapes and whole index lists must be equal. Four kinds of case:

  spec      distribute_tensor(): what the placements say, _StridedShard with any split factor
  order     redistribute from Replicate to a stored shard_order
  fsdp2     distribute_tensor() over the tensor-parallel mesh, then FSDP2's own chunking of what it
            left: what FSDP2 stores, whatever its placements say; compared as the physical order
  decide    the same tensors, but the program gets the local shapes alone and must find the order;
            it may refuse only where three or more shards meet in one dimension
"""
import argparse
import collections
import math
import random
import subprocess
import sys
import time

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp._fully_shard._fsdp_common import (_chunk_with_empty,
                                                              _get_dim_chunked_size)
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor import _redistribute
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry, TensorMeta
from torch.distributed.tensor.placement_types import _StridedShard

MAX_RANKS = 16
MAX_ELEMENTS = 600
SPEC, PHYSICAL, DECIDE = 0, 1, 2

EXCLUDED = {
    "Partial(sum)": "distribute_tensor divides the values by the mesh size; it cuts as the others",
    "Partial(product), bitwise ops": "distribute_tensor cannot make them",
    "shard_order beside _StridedShard": "shardkit refuses a reordering there by name",
    "uneven FSDP2 on dimensions above 0": "FSDP2 refuses them",
}


def coordinates(sizes):
    """All coordinates of a grid, row-major."""
    return [tuple(int(c) for c in torch.unravel_index(torch.tensor(i), sizes))
            for i in range(math.prod(sizes))]


class Case:
    """What goes to the program, and what PyTorch put on each rank."""

    def __init__(self, kind, mesh, placements, shape, order=(), cut=SPEC):
        self.kind, self.mesh, self.placements = kind, mesh, placements
        self.shape, self.order, self.cut = shape, order, cut
        self.local = []  # a tensor for each rank, in mesh order

    def line(self):
        words = [len(self.mesh.shape), *self.mesh.shape, *self.mesh.flatten().tolist()]
        for placement in self.placements:
            if isinstance(placement, _StridedShard):
                words += ["T", placement.dim, placement.split_factor]
            elif isinstance(placement, Shard):
                words += ["S", placement.dim]
            else:
                words.append("R" if isinstance(placement, Replicate) else "P")
        words += [len(self.shape), *self.shape, len(self.order)]
        for entry in self.order:
            words += [entry.tensor_dim, len(entry.mesh_dims), *entry.mesh_dims]
        words.append(self.cut)
        if self.cut == DECIDE:
            for local in self.local:
                words += list(local.shape)
        return " ".join(map(str, words))

    def __str__(self):
        return (f"{self.kind}: shape {list(self.shape)}, mesh {self.mesh.tolist()}, "
                f"placements {list(self.placements)}, shard_order {self.order}")


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def mesh(self, dims):
        """A rank array of that many dimensions, in any rank order, sometimes with gaps."""
        while True:
            most = {1: 9, 2: 6, 3: 4, 4: 3}[dims]
            sizes = [self.random.randint(1, most) for _ in range(dims)]
            count = math.prod(sizes)
            if count <= MAX_RANKS:
                break
        ranks = list(range(count))
        if self.random.random() < 0.5:
            ranks = self.random.sample(range(count + self.random.choice([0, 5])), count)
        return torch.tensor(ranks, dtype=torch.int).view(sizes)

    def shape(self, dims):
        while True:
            shape = [self.random.choice([0, 1, 2, 3, 5, 8, self.random.randint(1, 40),
                                         self.random.randint(1, 100)]) for _ in range(dims)]
            if math.prod(shape) <= MAX_ELEMENTS:
                return shape

    def placements(self, mesh, dims):
        """Any placements at all; split factors are arbitrary."""
        result = []
        for _ in mesh.shape:
            kind = self.random.random()
            dim = self.random.randrange(dims) if dims else None
            if dims and self.random.random() < 0.5:
                dim = 0  # dimensions cut more than once
            if dim is not None and kind < 0.4:
                result.append(Shard(dim))
            elif dim is not None and kind < 0.75:
                result.append(_StridedShard(dim, split_factor=self.random.randint(1, 9)))
            else:
                result.append(Replicate() if kind < 0.9 else Partial("max"))
        return result

    def spec(self):
        mesh, dims = self.mesh(self.random.randint(1, 4)), self.random.choice([0] + 4 * [1, 2, 3])
        shape, placements = self.shape(dims), self.placements(mesh, dims)
        if self.random.random() < 0.2 and dims:  # a shard order spelled with split factors
            placements = [Shard(p.dim) if isinstance(p, _StridedShard) else p for p in placements]
            device_mesh = DeviceMesh("cpu", mesh, _init_backend=False, _rank=int(mesh.flatten()[0]))
            placements = DTensorSpec._convert_shard_order_to_StridedShard(
                self.shard_order(placements), tuple(placements), device_mesh)
        return Case("spec", mesh, placements, shape)

    def shard_order(self, placements):
        mesh_dims = collections.defaultdict(list)
        for m, placement in enumerate(placements):
            if isinstance(placement, Shard):
                mesh_dims[placement.dim].append(m)
        return tuple(ShardOrderEntry(d, tuple(self.random.sample(mesh_dims[d], len(mesh_dims[d]))))
                     for d in sorted(mesh_dims))

    def order(self):
        mesh, dims = self.mesh(self.random.randint(2, 4)), self.random.randint(1, 3)
        placements = [Shard(p.dim) if isinstance(p, _StridedShard) else p
                      for p in self.placements(mesh, dims)]
        placements = [Replicate() if isinstance(p, Partial) else p for p in placements]
        return Case("order", mesh, placements, self.shape(dims), self.shard_order(placements))

    def fsdp2(self):
        """[Replicate,] FSDP over one or two tensor-parallel mesh dims, as FSDP2 spells it."""
        replicas = self.random.random() < 0.2
        parallel = self.random.choice([1, 1, 1, 2])
        while True:
            mesh = self.mesh(replicas + 1 + parallel)
            dims = self.random.randint(1, 3)
            shape = self.shape(dims)
            # fully_shard's default is dimension 0; others must divide.
            dim = self.random.choice([0, 0, 0, self.random.randrange(dims)])
            inner = [self.random.choice([Shard(dim), Shard(dim), Shard(self.random.randrange(dims)),
                                         Replicate()]) for _ in range(parallel)]
            factor = math.prod(mesh.shape[replicas + 1 + i] for i in range(parallel)
                               if inner[i] == Shard(dim))
            case = Case("fsdp2", mesh, [*[Replicate()] * replicas,
                                        _StridedShard(dim, split_factor=factor) if factor > 1
                                        else Shard(dim), *inner], shape, cut=PHYSICAL)
            case.fsdp_dim, case.fsdp_mesh_dim = dim, int(replicas)
            if dim == 0 or shape[dim] % (mesh.shape[replicas] * factor) == 0:
                return case


def from_distribute_tensor(case, full, rank):
    mesh = DeviceMesh("cpu", case.mesh, _init_backend=False, _rank=rank)
    return distribute_tensor(full, mesh, case.placements, src_data_rank=None).to_local()


def from_redistribute(case, full, rank):
    mesh = DeviceMesh("cpu", case.mesh, _init_backend=False, _rank=rank)
    meta = TensorMeta(full.shape, full.stride(), full.dtype)
    source = DTensorSpec(mesh, (Replicate(),) * mesh.ndim, tensor_meta=meta)
    target = DTensorSpec(mesh, tuple(case.placements), tensor_meta=meta, shard_order=case.order)
    return _redistribute.redistribute_local_tensor(full, source, target)


def from_fsdp2(case, full, rank):
    """FSDPParam._init_sharded_param: chunk what tensor parallelism left of the tensor."""
    at = tuple(int(c) for c in (case.mesh == rank).nonzero()[0])
    m = case.fsdp_mesh_dim
    tp_mesh = DeviceMesh("cpu", case.mesh[at[:m + 1]], _init_backend=False, _rank=rank)
    local = distribute_tensor(full, tp_mesh, case.placements[m + 1:], src_data_rank=None).to_local()
    chunk = _chunk_with_empty(local, case.mesh.shape[m], dim=case.fsdp_dim)[at[m]]
    return chunk.reshape(_get_dim_chunked_size(chunk, local.size(), dim=case.fsdp_dim))


def run_pytorch(case):
    make = {"spec": from_distribute_tensor, "order": from_redistribute,
            "fsdp2": from_fsdp2}[case.kind]
    full = torch.arange(math.prod(case.shape)).view(case.shape)
    case.local = [make(case, full, int(rank)) for rank in case.mesh.flatten()]


def answers(program, cases):
    """For each case the program's (shape, flat indices) of each rank; None where it refused."""
    output = subprocess.run([program], input="".join(case.line() + "\n" for case in cases).encode(),
                            stdout=subprocess.PIPE, check=True).stdout
    numbers = torch.frombuffer(bytearray(output), dtype=torch.int64) if output else torch.empty(0)
    at = 0
    for case in cases:
        ranks = []
        for _ in case.local:
            dims = int(numbers[at])
            at += 1
            if dims < 0:
                ranks.append(None)
                continue
            shape = numbers[at:at + dims].tolist()
            count = math.prod(shape)
            ranks.append((shape, numbers[at + dims:at + dims + count]))
            at += dims + count
        yield case, ranks
    assert at == len(numbers), "the program wrote more than it was asked for"


def features(case):
    """Which of the interesting classes a case belongs to, for the summary."""
    sizes = collections.Counter()
    dims = [p.dim for p in case.placements if isinstance(p, (Shard, _StridedShard))]
    for m, placement in enumerate(case.placements):
        if isinstance(placement, (Shard, _StridedShard)):
            sizes[placement.dim] = (sizes[placement.dim] or 1) * case.mesh.shape[m]
    yield from (name for name, holds in {
        "strided": any(isinstance(p, _StridedShard) for p in case.placements),
        "dimension cut repeatedly": len(dims) != len(set(dims)),
        "uneven": any(case.shape[d] % n for d, n in sizes.items()),
        "empty local tensor": any(local.numel() == 0 for local in case.local),
        "dimension of size 0": 0 in case.shape,
        "dimension of size 1": 1 in case.shape,
        "0-d tensor": not case.shape,
        "ranks out of order": case.mesh.flatten().tolist() != list(range(case.mesh.numel())),
        "partial": any(isinstance(p, Partial) for p in case.placements),
        **{f"{n}-d mesh": case.mesh.ndim == n for n in range(1, 5)},
    }.items() if holds)


def shards_in_one_dim(case):
    dims = collections.Counter(p.dim for m, p in enumerate(case.placements)
                               if isinstance(p, (Shard, _StridedShard)) and case.mesh.shape[m] > 1)
    return max(dims.values(), default=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--cases", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    args = parser.parse_args()
    print(f"box rule against torch {torch.__version__}: {args.cases} cases, seed {args.seed}")
    started = time.monotonic()

    generator = Generator(args.seed)
    cases, raised = [], collections.Counter()
    while len(cases) < args.cases:
        make = generator.random.choices([generator.spec, generator.order, generator.fsdp2],
                                        [60, 10, 30])[0]
        case = make()
        try:
            run_pytorch(case)
        except Exception as error:  # PyTorch refuses the case; the summary says why
            raised[f"{case.kind}: {type(error).__name__}: {str(error).splitlines()[0][:80]}"] += 1
            if sum(raised.values()) > args.cases:
                break
            continue
        cases.append(case)
        if len(cases) % 500 == 0:
            _redistribute._gen_transform_infos.cache_clear()

    for case in [c for c in cases if c.kind == "fsdp2"]:
        decide = Case("decide", case.mesh, case.placements, case.shape, cut=DECIDE)
        decide.local = case.local
        cases.append(decide)

    failures, refused, compared = 0, 0, collections.Counter()
    seen = collections.Counter()
    for case, ranks in answers(args.program, cases):
        compared[case.kind] += 1
        seen.update(features(case))
        if case.kind == "decide" and ranks[0] is None and shards_in_one_dim(case) >= 3:
            refused += 1
            continue
        for rank, local, answer in zip(case.mesh.flatten().tolist(), case.local, ranks):
            # Where another dimension leaves nothing, FSDP2 records 0 rows whatever it cut.
            same_shape = answer is not None and (
                answer[0] == list(local.shape) or
                case.kind in ("fsdp2", "decide") and local.numel() == 0)
            if same_shape and torch.equal(answer[1], local.reshape(-1)):
                continue
            failures += 1
            if failures <= 10:
                print(f"DIFFERS: {case}\n  rank {rank}: torch {list(local.shape)} "
                      f"{local.reshape(-1).tolist()}\n  shardkit {answer}")

    print("compared:", ", ".join(f"{n} {kind}" for kind, n in compared.items()))
    print("among them:", ", ".join(f"{n} {name}" for name, n in sorted(seen.items())))
    print(f"decide refused (three or more uneven shards in one dimension): {refused}")
    print("excluded by design:")
    for name, reason in EXCLUDED.items():
        print(f"  {name}: {reason}")
    print("excluded because PyTorch refused:", "none" if not raised else "")
    for text, count in raised.most_common():
        print(f"  {count} x {text}")
    print(f"{failures} differences, {time.monotonic() - started:.0f} s")
    return 1 if failures or sum(compared.values()) < args.cases else 0


if __name__ == "__main__":
    sys.exit(main())

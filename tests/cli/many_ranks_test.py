"""A checkpoint of 1,024 ranks under the limit of 256 open files that many systems have."""
import collections
import io
import json
import pickle
import resource
import sys
import types
import unittest
import zipfile

import program

RANKS = 1024
LIMIT = 256


class Storage:
    """Stands for the bytes of a tensor in a pickle; they lie in a record of their own."""

    def __init__(self, key, count):
        self.key = key
        self.count = count


def torch_global(module, name):
    """A class that pickles by this name; torch itself is not needed."""
    made = type(name, (), {"__module__": module, "__qualname__": name})
    holder = sys.modules.setdefault(module, types.ModuleType(module))
    setattr(holder, name, made)
    return made


REBUILD = torch_global("torch._utils", "_rebuild_tensor_v2")
FLOAT_STORAGE = torch_global("torch", "FloatStorage")


class Tensor:
    """Pickles as torch pickles a tensor of one row (torch/_tensor.py, __reduce_ex__)."""

    def __init__(self, storage):
        self.storage = storage

    def __reduce__(self):
        shape = (1, self.storage.count)
        return REBUILD, (self.storage, 0, shape, (self.storage.count, 1), False,
                         collections.OrderedDict())


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        if isinstance(value, Storage):
            return ("storage", FLOAT_STORAGE, value.key, "cpu", value.count)
        return None


def write_rank(path, tensors):
    """`tensors`: {name: bytes of one row of float32}."""
    state = {name: Tensor(Storage(str(i), len(data) // 4))
             for i, (name, data) in enumerate(tensors.items())}
    out = io.BytesIO()
    Pickler(out, protocol=2).dump(state)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", out.getvalue())
        archive.writestr("archive/byteorder", "little")
        for i, data in enumerate(tensors.values()):
            archive.writestr("archive/data/%d" % i, data)
        archive.writestr("archive/version", "3\n")


def row(rank, tensor):
    """Four small floats that no other row has: their bits are a number."""
    return b"".join((0x3F800000 + (tensor * RANKS + rank) * 4 + i).to_bytes(4, "little")
                    for i in range(4))


class ManyRanksTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.checkpoint = self.folder / "checkpoint"
        self.checkpoint.mkdir()
        for rank in range(RANKS):
            write_rank(self.checkpoint / ("model_world_size_%d_rank_%d.pt" % (RANKS, rank)),
                       {"a": row(rank, 0), "b": row(rank, 1)})

    def limited(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))

    def test_inspect(self):
        done = self.run_program("inspect", self.checkpoint, "--json", exit_code=program.DONE,
                                preexec_fn=self.limited)
        shapes = {t["name"]: t["shape"] for t in json.loads(done.stdout)["tensors"]}
        self.assertEqual(shapes, {"a": [RANKS, 4], "b": [RANKS, 4]})

    def test_merge(self):
        self.merge(self.checkpoint, "--dtype", "keep", "--no-fsync", preexec_fn=self.limited)
        tensors = program.read_model(self.out)
        for i, name in enumerate(["a", "b"]):
            self.assertEqual(tensors[name], ("F32", [RANKS, 4],
                                             b"".join(row(rank, i) for rank in range(RANKS))))


if __name__ == "__main__":
    unittest.main()

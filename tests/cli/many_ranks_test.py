"""A checkpoint of 1,024 ranks under the limit of 256 open files that many systems have."""
import json
import resource
import unittest

import program
import torch_file

RANKS = 1024
LIMIT = 256


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
            torch_file.write(self.checkpoint / ("model_world_size_%d_rank_%d.pt" % (RANKS, rank)),
                             {"a": (1, 4), "b": (1, 4)}, (row(rank, 0), row(rank, 1)))

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

"""A merge of some 200 MB, which tests stop on the way."""
import os
import pathlib
import shutil
import tempfile

import program
import torch_file

MIB = 1 << 20
RECORD = 32  # bytes of the journal for each block
BLOCKS = 25  # of 192 MiB and a header


def write_checkpoint(folder, ranks, tensors, floats):
    """Of each rank so many float32 tensors of one dimension; `floats`: a multiple of 256 Ki."""
    folder.mkdir()
    for rank in range(ranks):
        torch_file.write(folder / ("model_world_size_%d_rank_%d.pt" % (ranks, rank)),
                         {"t%d" % i: (floats,) for i in range(tensors)},
                         (os.urandom(MIB) * (4 * floats // MIB) for _ in range(tensors)))
    return folder


class LargeMergeTest(program.ProgramTest):
    RANKS = 1

    @classmethod
    def setUpClass(cls):
        folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="shardkit_cli_", dir=folder))
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        cls.checkpoint = write_checkpoint(cls.shared / "checkpoint", cls.RANKS, 6,
                                          8 * MIB // cls.RANKS)
        cls.before = program.snapshot(cls.checkpoint)

    def setUp(self):
        super().setUp()
        self.folder = self.shared / "work"
        self.folder.mkdir()
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = self.folder / "out"
        self.stage = self.folder / ".out.shardkit-stage"
        self.journal = self.stage / "blocks"

    def flags(self, *more):
        return ("--dtype", "keep", "--threads", "1", *more)

    def expect_complete(self):
        self.run_program("verify", self.out, exit_code=program.DONE)
        self.run_program("verify", self.out, "--local_dir", self.checkpoint,
                         exit_code=program.DONE)
        self.expect_no_leftover()
        self.assertEqual(program.snapshot(self.checkpoint), self.before)

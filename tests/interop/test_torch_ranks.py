"""The harness waits for nobody forever, and leaves no process behind."""
import os
import subprocess
import time

import pytest

import torch_ranks as harness


def die(rank, size):
    if rank == 1:
        os._exit(1)
    time.sleep(3)  # it is slow, not dead


def test_a_rank_that_dies_is_named():
    ranks = harness.TorchRanks(2)
    try:
        with pytest.raises(AssertionError, match=r"ranks \[1\] do not answer; dead: \[1\]"):
            ranks.run(die)
        with pytest.raises(AssertionError, match="ranks died in an earlier test"):
            ranks.run(die)
    finally:
        ranks.close()


def is_running(pid):
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_programs_that_hang_are_killed(monkeypatch, tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nsleep 600 &\necho $$ $! >> %s/pids\nwait\n" % tmp_path)
    program.chmod(0o755)
    monkeypatch.setattr(harness, "PROGRAM", str(program))
    monkeypatch.setattr(harness, "SECONDS", 3)
    with pytest.raises(subprocess.TimeoutExpired):
        harness.run_program("nothing", tmp_path, 2, backend="gloo")
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 4
    assert not any(is_running(pid) for pid in pids)

"""What this PyTorch's torchrun starts, finds itself and merges: the tests of launchers that need PyTorch."""
import os
import pathlib
import subprocess
import sys

import pytest

import checkpoints
import torch_ranks as harness

BUILD = pathlib.Path(harness.PROGRAM).parents[3]


@pytest.mark.parametrize("script, test", [("launch/launch_test.py", "LaunchTest.test_torchrun"),
                                          ("cli/launched_merge_test.py", "SmallTest.test_torchrun")])
def test_torchrun(script, test):
    bin_folder = str(pathlib.Path(sys.executable).parent)
    done = subprocess.run(
        [sys.executable, "-B", str(checkpoints.ROOT / "tests" / script), "-v", test],
        env={**os.environ, "PATH": bin_folder + os.pathsep + os.environ["PATH"],
             "SHARDKIT": str(BUILD / "shardkit"),
             "LAUNCHED_RANKS": str(BUILD / "tests" / "launch" / "launched_ranks"),
             "LAUNCHED_EXAMPLE": str(BUILD / "examples" / "example_load_and_gather")},
        capture_output=True, text=True, timeout=harness.SECONDS)
    assert done.returncode == 0 and "skipped" not in done.stderr, done.stdout + done.stderr

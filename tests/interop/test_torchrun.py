"""What this PyTorch's torchrun starts, finds itself: the test of launchers that needs PyTorch."""
import os
import pathlib
import subprocess
import sys

import checkpoints
import torch_ranks as harness

BUILD = pathlib.Path(harness.PROGRAM).parents[3]


def test_torchrun():
    bin_folder = str(pathlib.Path(sys.executable).parent)
    done = subprocess.run(
        [sys.executable, "-B", str(checkpoints.ROOT / "tests" / "launch" / "launch_test.py"), "-v",
         "LaunchTest.test_torchrun"],
        env={**os.environ, "PATH": bin_folder + os.pathsep + os.environ["PATH"],
             "LAUNCHED_RANKS": str(BUILD / "tests" / "launch" / "launched_ranks"),
             "LAUNCHED_EXAMPLE": str(BUILD / "examples" / "example_load_and_gather")},
        capture_output=True, text=True, timeout=harness.SECONDS)
    assert done.returncode == 0 and "skipped" not in done.stderr, done.stdout + done.stderr

"""The box rule holds the elements that PyTorch's DTensor puts on each rank, in 20,000 random layouts."""
import os
import re
import subprocess
import sys

import checkpoints

FOLDER = checkpoints.ROOT / "tests" / "interop" / "box_rule"
BOX_RULE = os.environ.get("SHARDKIT_BOX_RULE",
                          str(checkpoints.ROOT / "build" / "tests" / "interop" / "box_rule" / "box_rule"))


def test_twenty_thousand_layouts(capsys):
    done = subprocess.run([sys.executable, str(FOLDER / "check.py"), "--program", BOX_RULE,
                           "--cases", "20000"], capture_output=True, text=True, timeout=1500)
    with capsys.disabled():  # the seed, to repeat a failure, and the classes left out
        print("\n" + done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"20000 cases, seed \d+", done.stdout)
    assert re.search(r"^0 differences", done.stdout, re.MULTILINE)

"""Checkpoints that the installed PyTorch writes now merge to what went in."""
import pathlib
import subprocess
import sys

import pytest

import checkpoints
import more_layouts

GENERATE = checkpoints.FIXTURES / "generate.py"
GENERATED = sorted({c.name for c in checkpoints.fixture_cases() if c.parent.name == "torch-2.13.0"})


@pytest.fixture(scope="session")
def fresh(tmp_path_factory):
    """fresh(script): the folder of all the cases that a script makes, made once."""
    made = {}

    def get(script):
        if script not in made:
            out = tmp_path_factory.mktemp("fresh")
            done = subprocess.run([sys.executable, str(script), str(out)], capture_output=True,
                                  text=True, timeout=900)
            assert done.returncode == 0, done.stdout + done.stderr
            made[script] = out
        return made[script]

    return get


@pytest.mark.parametrize("name", GENERATED)
def test_generated_anew(name, fresh, tmp_path):
    case = fresh(GENERATE) / name
    checkpoints.assert_same_tensors(
        checkpoints.read_model(checkpoints.merge(case, tmp_path / "out")),
        checkpoints.expected_tensors(case))


@pytest.mark.parametrize("name", sorted(more_layouts.CASES))
def test_more_layouts(name, fresh, tmp_path):
    case = fresh(pathlib.Path(more_layouts.__file__)) / name
    checkpoints.assert_same_tensors(
        checkpoints.read_model(checkpoints.merge(case, tmp_path / "out")),
        checkpoints.expected_tensors(case))

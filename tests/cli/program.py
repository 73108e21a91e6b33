"""Runs the program as a process, and reads what it leaves; the standard library alone."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("SHARDKIT", str(ROOT / "build" / "shardkit"))
FIXTURES = ROOT / "tests" / "fixtures"
SAMPLE = FIXTURES / "torch-2.13.0" / "fsdp2_fp32_w4"

DONE, DIFFERENCES, USAGE, REFUSED, IO = 0, 1, 2, 3, 4


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}, in the order of the header."""
    data = path.read_bytes()
    header_end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:header_end])
    metadata = header.pop("__metadata__", {})
    assert metadata.get("format") == "pt" or path.name == "expected.safetensors", metadata
    tensors, end = {}, 0
    for name, entry in header.items():
        begin, stop = entry["data_offsets"]
        assert begin == end, "%s: a hole before %s" % (path, name)
        end = stop
        tensors[name] = (entry["dtype"], entry["shape"], data[header_end + begin:header_end + stop])
    assert header_end + end == len(data), "%s: bytes after the last tensor" % path
    return tensors


def write_safetensors(path, tensors):
    """tensors: {name: (dtype, shape, bytes)}."""
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(text).to_bytes(8, "little") + text +
                     b"".join(data for _, _, data in tensors.values()))


def read_model(folder):
    """Every tensor of a model folder, through its index if it has one."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return read_safetensors(folder / "model.safetensors")
    tensors = {}
    for name in sorted(set(json.loads(index.read_text())["weight_map"].values())):
        tensors.update(read_safetensors(folder / name))
    return tensors


def expected_tensors(case):
    """What a merge writes as the model; of one with an adapter the base, under clean names."""
    tensors = {name.removeprefix("base_model.model.").replace(".base_layer", ""): tensor
               for name, tensor in read_safetensors(case / "expected.safetensors").items()
               if "lora_" not in name}
    if case.name.startswith("fsdp2_bf16_tied"):
        del tensors["lm_head.weight"]  # config.json ties it, and it equals the embedding
    return tensors


def snapshot(folder):
    """Every path below a folder with its content and the time of its last change."""
    return {path.relative_to(folder).as_posix():
            (path.stat().st_mtime_ns,
             hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder")
            for path in sorted(folder.rglob("*"))}


def record_error(text):
    """Adds what the program printed as an error to the file that tools/errors_page.py reads; see
    testing/matchers.h. The code is not known here."""
    path = os.environ.get("SHARDKIT_RECORD_ERRORS")
    found = re.search(r"^shardkit: (.*)$", text, re.M)
    if path and found:
        message = found.group(1).replace("\t", " ")
        with open(path, "a") as log:
            log.write("?\t%s\t%s\n" % (message, message))


class ProgramTest(unittest.TestCase):
    """A test with a folder of its own, in which the program runs."""

    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="shardkit_cli_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"

    def run_program(self, *arguments, exit_code=None, **keywords):
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                              timeout=120, cwd=keywords.pop("cwd", self.folder),
                              stdin=subprocess.DEVNULL, **keywords)
        record_error(done.stderr)
        if exit_code is not None:
            self.assertEqual(done.returncode, exit_code, "%s\nstdout: %s\nstderr: %s"
                             % (" ".join(map(str, arguments)), done.stdout, done.stderr))
        return done

    def merge(self, checkpoint, *flags, exit_code=DONE, **keywords):
        return self.run_program("merge", "--backend", "fsdp", "--local_dir", checkpoint,
                                "--target_dir", self.out, *flags, exit_code=exit_code, **keywords)

    def copy(self, case=SAMPLE, name="checkpoint"):
        """A copy of a case that the test may change, without the expected tensors."""
        target = self.folder / name
        shutil.copytree(case, target, ignore=shutil.ignore_patterns("expected.*", "formats"))
        return target

    def expect_no_leftover(self):
        for path in self.folder.rglob("*"):
            self.assertNotIn("shardkit-", path.name)

    def assert_refused(self, checkpoint, *texts, flags=(), exit_code=REFUSED):
        """The merge is refused, says `texts`, leaves nothing and touches nothing."""
        parent = self.folder
        before = snapshot(parent)
        outside = None if checkpoint.is_relative_to(parent) else snapshot(checkpoint)
        done = self.merge(checkpoint, *flags, exit_code=exit_code)
        for text in texts:
            self.assertIn(text, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(snapshot(parent), before, "a refused merge left or changed a file")
        if outside is not None:
            self.assertEqual(snapshot(checkpoint), outside)
        return done

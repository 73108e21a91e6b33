#!/usr/bin/env python3
"""Measures the merge against copying the bytes, and against what PyTorch users have today.

    python3 bench/merge_bench.py [--runs 9] [--only PART] [--folder SCRATCH] [--program build/shardkit]

Makes a checkpoint of Qwen2.5-0.5B's shapes (fp32, 8 ranks, 2 GB) in SCRATCH, or takes the one that is
there, and needs 10 GB beside it. Each measurement of the merge is paired with one of the floor: `cat` of
all shards to /dev/null, then writing as many bytes as the output has with `dd bs=1M`, which is what
people type, and what stays in a processor's cache. The two alternate, on warm files and each after
measure.settle; what counts is the median of their ratios.

SHARDKIT_BENCH_PYTHON: a Python with torch, default build/interop-venv, else this one; without torch the
checkpoint is written by bench_checkpoint and nothing else is compared.
SHARDKIT_BENCH_VERL: a Python with verl, default the one with torch; without it: "not measured".
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import measure

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parent
PARTS = ["bfloat16", "keep", "torch", "verl", "hard", "quick"]


def imports(python, modules):
    """Whether a Python has modules. Slow for torch and verl, so ask once."""
    if not python or not shutil.which(python):
        return False
    # In a folder of its own: a stray file elsewhere may be named like a module.
    return subprocess.run([python, "-c", "import " + modules], capture_output=True,
                          cwd=BENCH).returncode == 0


def find_torch():
    candidates = [os.environ.get("SHARDKIT_BENCH_PYTHON"),
                  str(ROOT / "build" / "interop-venv" / "bin" / "python"), sys.executable]
    return next((python for python in candidates if imports(python, "torch, safetensors")), None)


class Bench:
    def __init__(self, arguments):
        self.runs = arguments.runs
        self.program = arguments.program.resolve()
        self.folder = pathlib.Path(arguments.folder).resolve()
        self.checkpoint = self.folder / "checkpoint"
        self.out = self.folder / "out"
        self.shards = self.folder / "shards"
        self.torch = find_torch()
        verl = os.environ.get("SHARDKIT_BENCH_VERL", self.torch)
        self.verl = verl if imports(verl, "verl.model_merger") else None

    def make_checkpoint(self):
        if self.checkpoint.exists():
            return
        if self.torch:
            measure.run([self.torch, BENCH / "torch_checkpoint.py", self.checkpoint])
        else:
            measure.run([self.program.parent / "bench_checkpoint", "qwen", self.checkpoint])

    def merge_command(self, dtype, synced):
        return [self.program, "merge", "--backend", "fsdp", "--local_dir", self.checkpoint,
                "--target_dir", self.out, "--dtype", dtype, "--quiet",
                *([] if synced else ["--no-fsync"])]

    def floor_command(self, out_bytes, synced):
        return ("cat %s/*.pt > /dev/null; dd if=/dev/zero of=%s bs=1M iflag=count_bytes count=%d%s "
                "status=none" % (self.checkpoint, self.out, out_bytes,
                                 " conv=fsync" if synced else ""))

    def clear(self):
        if self.out.is_dir():
            shutil.rmtree(self.out)
        self.out.unlink(missing_ok=True)

    def measure(self, command, output_bytes):
        self.clear()
        measure.settle(self.folder, output_bytes)
        return measure.run(command)

    def output_bytes(self):
        return sum(file.stat().st_size for file in self.out.iterdir() if file.is_file())

    def pairs(self, first, second, runs):
        """Runs two commands in turn, each first every other time."""
        measure.run(first)  # warms what both read
        output_bytes = self.output_bytes()
        left, right = [], []
        for i in range(runs):
            for command, done in ([(first, left), (second, right)] if i % 2 == 0 else
                                  [(second, right), (first, left)]):
                done.append(self.measure(command, output_bytes))
        return left, right

    def report(self, name, ours, theirs, command, other):
        ratios = [a.seconds / b.seconds for a, b in zip(ours, theirs)]
        print("\n## %s" % name)
        print("$ %s\n$ %s" % (measure.text(command), measure.text(other)))
        print("ratio %s of %d pairs" % (measure.spread(ratios), len(ratios)))
        for who, runs in (("merge", ours), ("other", theirs)):
            print("%s: %s s; %.2f s of processor; peak %s" % (
                who, measure.spread([r.seconds for r in runs]),
                measure.median([r.cpu_seconds for r in runs]),
                measure.mib(max(r.peak_bytes for r in runs))), flush=True)

    def against_floor(self, dtype):
        for synced in (False, True):
            merge = self.merge_command(dtype, synced)
            self.clear()
            measure.run(merge)
            floor = self.floor_command(self.output_bytes(), synced)
            self.clear()
            self.report("merge to %s, %s, against the floor" %
                        (dtype, "synced" if synced else "--no-fsync"),
                        *self.pairs(merge, floor, self.runs), merge, floor)

    def against_verl(self):
        if not self.verl:
            print("\n## verl: not measured (SHARDKIT_BENCH_VERL names no Python that has it)")
            return
        verl = [self.verl, "-m", "verl.model_merger", "merge", "--backend", "fsdp", "--local_dir",
                self.checkpoint, "--target_dir", self.out]
        merge = self.merge_command("bfloat16", False)
        self.clear()
        self.report("merge to bfloat16, --no-fsync, against verl's merger, which does not sync either",
                    *self.pairs(merge, verl, self.runs), merge, verl)

    def against_consolidation(self):
        if not self.torch:
            print("\n## PyTorch's consolidation: not measured (no Python with torch)")
            return
        script = BENCH / "torch_consolidate.py"
        if not self.shards.exists():
            measure.run([self.torch, script, "prepare", self.checkpoint, self.shards])
        merge = self.merge_command("keep", False)
        other = "mkdir %s && %s %s run %s %s" % (self.out, self.torch, script, self.shards, self.out)
        self.clear()
        self.report("merge keep, --no-fsync, against PyTorch's consolidation",
                    *self.pairs(merge, other, self.runs), merge, other)

    def hard_layouts(self):
        """Peak memory where every piece is strided or summed: what bounds it must hold at any layout."""
        checkpoint = self.folder / "hard"
        if not checkpoint.exists():
            measure.run([self.program.parent / "bench_checkpoint", "hard", checkpoint])
        print("\n## transposed, column-sharded and Partial sources, 8 ranks, fp32: peak memory")
        for threads, budget in ((1, 256), (2, 256), (8, 256), (8, 64), (2, 1024)):
            command = [self.program, "merge", "--backend", "fsdp", "--local_dir", checkpoint,
                       "--target_dir", self.out, "--quiet", "--no-fsync", "--threads", threads,
                       "--memory-budget", "%dMiB" % budget]
            self.clear()
            done = measure.run(command)
            print("$ %s\npeak %s, at most %d MiB allowed: %s; %.2f s" % (
                measure.text(command), measure.mib(done.peak_bytes), budget + 64,
                "kept" if done.peak_bytes <= (budget + 64) << 20 else "NOT KEPT", done.seconds),
                flush=True)

    def quick_commands(self):
        for name, command in [("inspect", [self.program, "inspect", self.checkpoint]),
                              ("start", [self.program, "--version"])]:
            runs = [measure.run(command) for _ in range(max(self.runs, 15))]
            print("\n## %s\n$ %s\n%.1f ms, at best %.1f; %.1f ms of processor; peak %s" % (
                name, measure.text(command), 1000 * measure.median([r.seconds for r in runs]),
                1000 * min(r.seconds for r in runs),
                1000 * measure.median([r.cpu_seconds for r in runs]),
                measure.mib(max(r.peak_bytes for r in runs))), flush=True)

    def all(self, only):
        print("# %s\n# commit %s" % (measure.machine(), measure.commit(ROOT)))
        self.make_checkpoint()
        parts = {"bfloat16": lambda: self.against_floor("bfloat16"),
                 "keep": lambda: self.against_floor("keep"), "torch": self.against_consolidation,
                 "verl": self.against_verl, "hard": self.hard_layouts, "quick": self.quick_commands}
        for name in PARTS if only is None else [only]:
            parts[name]()
        self.clear()
        print("\n# %s" % measure.machine())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--folder", help="scratch; default: a temporary one, removed at the end")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "shardkit")
    arguments = parser.parse_args()
    if arguments.folder:
        pathlib.Path(arguments.folder).mkdir(parents=True, exist_ok=True)
        Bench(arguments).all(arguments.only)
        return
    with tempfile.TemporaryDirectory(prefix="shardkit_bench_") as folder:
        arguments.folder = folder
        Bench(arguments).all(arguments.only)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measures operations on state dicts against a bare memcpy and against PyTorch on gloo.

    python3 bench/state_dict_bench.py [--runs 9] [--ranks 2 4] [--program build/bench_state_dict]
                                      [--only OPERATION...]

512 MiB on each side: 32 tensors of 4096 x 1024 fp32, Shard(0). Ours run on threads of one process and on
as many processes over Gloo, PyTorch's on as many processes. All take turns; what counts is the median of
the ratios. The memcpy is one by as many threads or processes of the bytes that must land, into memory of
the same kind: fresh where the operation's is, from the library's own allocator, which asks for huge pages.
Against memory from malloc(), whose small pages cost more than the copy, every operation would look two to
four times better.

SHARDKIT_BENCH_PYTHON: a Python with torch, as for merge_bench.py; without torch only the memcpy is compared.
"""
import argparse
import json
import os
import pathlib
import subprocess

import measure
from merge_bench import ROOT, find_torch

BENCH = pathlib.Path(__file__).resolve().parent
# Ours, and what PyTorch has in its place; None: nothing.
OPERATIONS = {"gather": "gather", "gather to rank 0": "gather to rank 0", "broadcast": "broadcast",
              "distribute": "distribute", "copy": "copy", "snapshot": "clone",
              "refill snapshot": None, "restore snapshot": None}


class Side:
    """A process that answers each line, an operation, with the seconds that it took."""

    def __init__(self, command):
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def seconds(self, operation):
        self.process.stdin.write(operation + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("%s failed at %r" % (self.process.args, operation))
        return float(json.loads(answer))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Samples:
    """Seconds of the operation and of the memcpy, on one kind of ranks."""

    def __init__(self, side, operation):
        self.side = side
        self.operation = operation
        self.mine, self.memcpy = [], []

    def take(self):
        """A memcpy that is not counted goes before each: whoever takes fresh memory takes what it has
        given back, and not what a virtual machine has long returned to its host (measure.settle).
        """
        for seconds, command in ((self.mine, self.operation), (self.memcpy, "memcpy " + self.operation)):
            self.side.seconds("memcpy " + self.operation)
            seconds.append(self.side.seconds(command))

    def row(self, kind, theirs):
        return "%-18s %-10s %8.3f   %-22s %s" % (
            self.operation, kind, measure.median(self.mine),
            measure.spread([a / b for a, b in zip(self.mine, self.memcpy)]),
            measure.spread([b / a for a, b in zip(self.mine, theirs)]) if theirs else "not measured")


def compare(ours, torch, operation, runs):
    """Prints a row for each kind of ranks; the first round is not counted."""
    their_operation = OPERATIONS[operation]
    for counted in (1, runs):
        samples = {kind: Samples(side, operation) for kind, side in ours.items()}
        theirs = []
        for _ in range(counted):
            for each in samples.values():
                each.take()
            if torch and their_operation:
                theirs.append(torch.seconds(their_operation))
    for kind, each in samples.items():
        print(each.row(kind, theirs), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "bench_state_dict")
    parser.add_argument("--only", nargs="+", choices=list(OPERATIONS), default=list(OPERATIONS))
    arguments = parser.parse_args()
    python = find_torch()
    print("# %s\n# commit %s; %d runs each, seconds are medians" % (
        measure.machine(), measure.commit(ROOT), arguments.runs))
    for ranks in arguments.ranks:
        print("\n## %d ranks\n%-18s %-10s %8s   %-22s %s" % (
            ranks, "", "ranks are", "seconds", "times a memcpy", "PyTorch takes times ours"))
        ours = {kind: Side([arguments.program, kind, ranks]) for kind in ("threads", "processes")}
        torch = Side([python, BENCH / "torch_state_dict.py", ranks]) if python else None
        for operation in arguments.only:
            compare(ours, torch, operation, arguments.runs)
        for side in [*ours.values(), torch]:
            if side:
                side.close()
        print("# load %.1f at the end" % os.getloadavg()[0])


if __name__ == "__main__":
    main()

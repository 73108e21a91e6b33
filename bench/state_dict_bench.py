#!/usr/bin/env python3
"""Measures operations on state dicts against a bare memcpy and against PyTorch on gloo.

    python3 bench/state_dict_bench.py [--runs 9] [--ranks 2 4] [--program build/bench_state_dict]

512 MiB on each side: 32 tensors of 4096 x 1024 fp32, Shard(0). Ours run on threads of one process,
PyTorch's on as many processes. The three take turns; what counts is the median of the ratios. The memcpy
is one by as many threads of the bytes that must land, into memory of the same kind: fresh where the
operation's is, from the library's own allocator, which asks for huge pages. Against memory from malloc(),
whose small pages cost more than the copy, every operation would look two to four times better.

SHARDKIT_BENCH_PYTHON: a Python with torch, as for merge_bench.py; without torch only the memcpy is compared.
"""
import argparse
import json
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


def compare(ours, torch, operation, runs):
    """Seconds of ours, of the memcpy and of PyTorch, each a list; the first round is not counted.

    A memcpy that is not counted goes before each: whoever takes fresh memory takes what it has given
    back, and not what a virtual machine has long returned to its host (measure.settle).
    """
    memcpy = "memcpy " + operation
    sides = [(ours, operation), (ours, memcpy)]
    if torch and OPERATIONS[operation]:
        sides.append((torch, OPERATIONS[operation]))
    rows = []
    for _ in range(runs + 1):
        row = []
        for side, command in sides:
            ours.seconds(memcpy)
            row.append(side.seconds(command))
        rows.append(row)
    return list(zip(*rows[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "bench_state_dict")
    arguments = parser.parse_args()
    python = find_torch()
    print("# %s\n# commit %s; %d runs each, seconds are medians" % (
        measure.machine(), measure.commit(ROOT), arguments.runs))
    for ranks in arguments.ranks:
        print("\n## %d ranks\n%-18s %8s   %-22s %s" % (
            ranks, "", "seconds", "times a memcpy", "PyTorch takes times ours"))
        ours = Side([arguments.program, ranks])
        torch = Side([python, BENCH / "torch_state_dict.py", ranks]) if python else None
        for operation in OPERATIONS:
            mine, memcpy, *theirs = compare(ours, torch, operation, arguments.runs)
            print("%-18s %8.3f   %-22s %s" % (
                operation, measure.median(mine),
                measure.spread([a / b for a, b in zip(mine, memcpy)]),
                measure.spread([b / a for a, b in zip(mine, theirs[0])]) if theirs else
                "not measured"), flush=True)
        for side in (ours, torch):
            if side:
                side.close()


if __name__ == "__main__":
    main()

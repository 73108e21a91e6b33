#!/usr/bin/env python3
"""Measures what a look at a huge checkpoint costs: inspect and merge --dry-run.

    python3 bench/scale.py [--folder SCRATCH] [--program build/shardkit] [--quick]

Writes sparse checkpoints, holes instead of weights, 1 TB to look at and 12 GB on the disk: 1,024 ranks
of 1,000 tensors, 16 ranks of 100,000, and both again with a tenth of the tensors. They lie in a
temporary folder (TMPDIR says where) that is removed at the end; --folder keeps them in SCRATCH and
takes those that are there. Each command runs twice; the second run, on files that are warm if they
fit into memory, counts. --quick: only those of a tenth.

"read" is what the program asked the system for (rchar of /proc/PID/io). "over" is the peak memory above 64
MiB, for each piece: at most 256 bytes are wanted.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import measure

ROOT = pathlib.Path(__file__).resolve().parent.parent
TENTH = [(1024, 100), (16, 10_000)]
WHOLE = [(1024, 1000), (16, 100_000)]
BYTES_A_PIECE = 600_000  # some 1 TB for the whole


class Watch:
    """Asks for the bytes that a process has read, until it ends."""

    def __init__(self, pid):
        self.bytes = 0
        self.thread = threading.Thread(target=self.watch, args=(pid,))
        self.thread.start()

    def watch(self, pid):
        try:
            while True:
                with open("/proc/%d/io" % pid) as counts:
                    self.bytes = int(counts.readline().split()[1])
                time.sleep(0.005)
        except OSError:
            pass


def run(command):
    """Seconds, processor seconds, peak bytes and bytes read."""
    start = time.monotonic()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    watch = Watch(child.pid)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.monotonic() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    watch.thread.join()
    if child.returncode != 0:
        sys.exit("%s failed with %d" % (measure.text(command), child.returncode))
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, watch.bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "shardkit")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    program = arguments.program.resolve()
    sizes = TENTH + ([] if arguments.quick else WHOLE)
    print("%s, commit %s" % (measure.machine(), measure.commit(ROOT)))
    if arguments.folder:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        look(program, arguments.folder, sizes)
    else:
        with tempfile.TemporaryDirectory(prefix="shardkit-scale-") as folder:
            look(program, pathlib.Path(folder), sizes)


def look(program, folder, sizes):
    seconds = {}
    for ranks, tensors in sizes:
        checkpoint = folder / ("%dx%d" % (ranks, tensors))
        if not checkpoint.exists():
            unfinished = folder / (checkpoint.name + ".part")
            subprocess.run(["rm", "-rf", unfinished], check=True)
            subprocess.run([program.parent / "bench_checkpoint", "sparse", unfinished, str(ranks),
                            str(tensors), str(ranks * tensors * BYTES_A_PIECE)], check=True)
            unfinished.rename(checkpoint)
        for name, command in [
                ("inspect", [program, "inspect", checkpoint]),
                ("dry run", [program, "merge", "--local-dir", checkpoint, "--target-dir",
                             folder / "out", "--dry-run"])]:
            command = [str(part) for part in command]
            run(command)
            wall, processor, peak, read = run(command)
            pieces = ranks * tensors
            tenth = seconds.get((name, ranks, tensors // 10))
            seconds[name, ranks, tensors] = wall
            print("\n%s\n  %.2f s, %.2f processor seconds, peak %s, over %.0f bytes a piece, read "
                  "%s of %.1f GB%s" % (
                      measure.text(command), wall, processor, measure.mib(peak),
                      max(0, peak - (64 << 20)) / pieces, measure.mib(read),
                      pieces * BYTES_A_PIECE / 1e9,
                      "; %.1f times a tenth of the tensors" % (wall / tenth) if tenth else ""),
                  flush=True)


if __name__ == "__main__":
    main()

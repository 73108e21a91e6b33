"""Processes that are the ranks of a real torch.distributed group, and comparing with what they make.

A test hands a function of its module to all ranks: `function(rank, size, folder, *arguments)` runs in
each process. Starting them takes seconds, so that one set for each size serves all tests.
"""
import datetime
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import torch
import torch.distributed
import torch.multiprocessing

import checkpoints

sys.path.insert(0, str(checkpoints.ROOT / "tests" / "launch"))
import ports  # noqa: E402

PROGRAM = os.environ.get(
    "SHARDKIT_STATE_DICT_OPS",
    str(checkpoints.ROOT / "build" / "tests" / "interop" / "state_dict_ops" / "state_dict_ops"))
SECONDS = 120
GRACE = 30  # seconds that the others have to answer when a rank has died
BACKENDS = ("threads", "gloo")  # of state_dict_ops: what its ranks are


def _serve(rank, size, store, jobs, results):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", rank=rank, world_size=size, store=torch.distributed.FileStore(store, size),
        timeout=datetime.timedelta(seconds=SECONDS))
    while True:
        job = jobs.get()
        if job is None:
            return
        function, arguments = job
        try:
            results.put((rank, function(rank, size, *arguments), None))
        except BaseException:
            results.put((rank, None, traceback.format_exc()))


class TorchRanks:
    """`size` processes of one gloo group."""

    def __init__(self, size):
        self.size = size
        self._folder = tempfile.TemporaryDirectory()
        context = torch.multiprocessing.get_context("spawn")
        self._results = context.Queue()
        self._jobs = [context.SimpleQueue() for _ in range(size)]
        store = os.path.join(self._folder.name, "store")
        self._processes = [context.Process(target=_serve, args=(rank, size, store, jobs, self._results),
                                           daemon=True)
                           for rank, jobs in enumerate(self._jobs)]
        for process in self._processes:
            process.start()

    def run(self, function, *arguments):
        """What the function returned, by rank. A rank's exception is a failure that shows it."""
        assert all(process.is_alive() for process in self._processes), "ranks died in an earlier test"
        for jobs in self._jobs:
            jobs.put((function, arguments))
        returned, waiting, failures = [None] * self.size, set(range(self.size)), []
        deadline = time.monotonic() + 2 * SECONDS
        while waiting:
            try:
                rank, value, failure = self._results.get(timeout=1)
            except queue.Empty:
                dead = [rank for rank in sorted(waiting) if not self._processes[rank].is_alive()]
                if dead:  # the living may only be slow
                    deadline = min(deadline, time.monotonic() + GRACE)
                if len(dead) == len(waiting) or time.monotonic() > deadline:
                    self._kill()
                    raise AssertionError("ranks %s do not answer; dead: %s" % (sorted(waiting), dead))
                continue
            returned[rank] = value
            waiting.remove(rank)
            if failure:
                failures.append("rank %d:\n%s" % (rank, failure))
        assert not failures, "\n".join(failures)
        return returned

    def close(self):
        for jobs in self._jobs:
            jobs.put(None)
        for process in self._processes:
            process.join(10)
        self._kill()
        self._folder.cleanup()

    def _kill(self):
        for process in self._processes:
            process.kill()
            process.join()


def rank_file(folder, name, rank):
    """FOLDER/NAME/rank_R.pt: NAME is "in" for what both get, "expected" for what PyTorch makes."""
    path = pathlib.Path(folder) / name / ("rank_%d.pt" % rank)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def run_program(operation, folder, size, backend="threads", **arguments):
    """Runs state_dict_ops on FOLDER/in; what it makes is in FOLDER/out. Returns (exit code, text)."""
    out = pathlib.Path(folder) / "out"
    out.mkdir(exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    command = ([PROGRAM, operation, str(pathlib.Path(folder) / "in"), str(out), str(size)]
               + ["%s=%s" % pair for pair in arguments.items()])
    if backend == "threads":
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        return done.returncode, done.stdout + done.stderr
    port = ports.free_port()
    place = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    deadline = time.monotonic() + SECONDS
    processes = []
    try:
        for rank in range(size):
            processes.append(subprocess.Popen(
                command + ["backend=gloo"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env={**os.environ, **place, "RANK": str(rank)}, start_new_session=True))
        texts = [process.communicate(timeout=max(0, deadline - time.monotonic()))[0]
                 for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
    return max(process.returncode for process in processes), "".join(texts)


def _tensor_difference(a, b, path, rounded):
    if a.dtype != b.dtype or a.shape != b.shape:
        return "%s: %s %s against %s %s" % (path, a.dtype, tuple(a.shape), b.dtype, tuple(b.shape))
    if a.is_meta or b.is_meta:
        return None if a.is_meta and b.is_meta else path + ": only one is meta"
    a, b = a.detach().contiguous(), b.detach().contiguous()
    if rounded and a.is_floating_point():
        return None if torch.allclose(a.double(), b.double(), rtol=torch.finfo(a.dtype).eps, atol=0,
                                      equal_nan=True) else path + ": more than one rounding apart"
    if torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8)):
        return None
    return path + ": other bytes"


def difference(a, b, path="root", rounded=False):
    """Where two trees differ, bit by bit; `rounded` allows floats one rounding. None: nowhere."""
    from torch.distributed.tensor import DTensor
    if type(a) is not type(b) and not (isinstance(a, dict) and isinstance(b, dict)):
        return "%s: %s against %s" % (path, type(a).__name__, type(b).__name__)
    if isinstance(a, DTensor):
        if a.device_mesh.mesh.tolist() != b.device_mesh.mesh.tolist():
            return path + ": other meshes"
        if a.placements != b.placements or a.shape != b.shape:
            return path + ": other placements or global shape"
        return _tensor_difference(a.to_local(), b.to_local(), path, rounded)
    if isinstance(a, torch.Tensor):
        return _tensor_difference(a, b, path, rounded)
    if isinstance(a, dict):
        if list(a) != list(b):
            return "%s: keys %s against %s" % (path, list(a), list(b))
        pairs = [(a[key], b[key], "%s.%s" % (path, key)) for key in a]
    elif isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return "%s: %d items against %d" % (path, len(a), len(b))
        pairs = [(x, y, "%s.%d" % (path, i)) for i, (x, y) in enumerate(zip(a, b))]
    else:
        return None if repr(a) == repr(b) else "%s: %r against %r" % (path, a, b)
    for x, y, below in pairs:
        found = difference(x, y, below, rounded)
        if found:
            return found
    return None


def compare(rank, size, folder, rounded=False):
    """Runs on each rank: the difference between FOLDER/expected and FOLDER/out."""
    expected = torch.load(rank_file(folder, "expected", rank), weights_only=False)
    out = torch.load(rank_file(folder, "out", rank), weights_only=False)
    return difference(expected, out, rounded=rounded)

"""Runs a command as a child process and says what it took; the standard library alone."""
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time


class Run:
    """Seconds on the clock, processor seconds, peak resident bytes of a command and its children."""

    def __init__(self, seconds, cpu_seconds, peak_bytes):
        self.seconds = seconds
        self.cpu_seconds = cpu_seconds
        self.peak_bytes = peak_bytes


def run(command, output=subprocess.DEVNULL, **keywords):
    """Runs a list of arguments, or a text for the shell; ends the program if it fails.

    The peak is the largest of any one process below the shell, as /usr/bin/time has it.
    """
    arguments = ["sh", "-c", command] if isinstance(command, str) else [str(a) for a in command]
    start = time.monotonic()
    child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=output,
                             stderr=subprocess.PIPE, **keywords)
    errors = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.monotonic() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit("%s\nfailed with %d:\n%s" % (text(command), child.returncode,
                                              errors.decode(errors="replace")[-2000:]))
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def text(command):
    return command if isinstance(command, str) else shlex.join(str(a) for a in command)


def settle(free_bytes):
    """Waits until nothing is left to be written, and touches `free_bytes` of memory.

    A virtual machine may give its free memory back to the host some seconds after it was freed, and
    then waits 20 times as long for each page as for a page at hand: whatever ran first would pay for
    all. Touching memory was meant to prevent that and was seen not to: on such a machine the ratios
    stray widely, and must not be quoted. In a process of its own, since a child's peak memory starts at its parent's.
    """
    os.sync()
    subprocess.run([sys.executable, "-c", TOUCH % free_bytes], check=True)


TOUCH = """
import mmap
memory = mmap.mmap(-1, %d)
memory.madvise(mmap.MADV_HUGEPAGE)
for at in range(0, len(memory), 4096):
    memory[at] = 1
"""


def median(values):
    return statistics.median(values)


def spread(values):
    """"0.93 (0.88-1.02)": median, least and most."""
    return "%.2f (%.2f-%.2f)" % (median(values), min(values), max(values))


def mib(byte_count):
    return "%.0f MiB" % (byte_count / 2**20)


def machine():
    """A line about where this ran."""
    model = "unknown processor"
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.split(":")[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return "%d cores of %s, %d GiB, Linux %s, load %.1f" % (
        os.cpu_count(), model, round(memory / 2**30), platform.release(), os.getloadavg()[0])


def commit(root):
    done = subprocess.run(["git", "-C", str(root), "describe", "--always", "--dirty"],
                          capture_output=True, text=True)
    return done.stdout.strip() or "unknown"

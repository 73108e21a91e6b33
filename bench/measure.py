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


def settle(folder, output_bytes):
    """Brings the machine into the state in which a run starts: the memory that it will write to is at hand.

    A virtual machine gives memory that was free for about a second back to the host, and then waits up
    to 20 times as long for each page as for one at hand: the same copy takes 0.4 s or 1.5 s. So a file
    somewhat larger than the output is written and removed right before each run; the system hands out
    first what was freed last. Runs of much more than a second outlive that and stray again.
    """
    os.sync()  # or the last run is still being written
    warm = folder / "warm"
    with open(warm, "wb", buffering=0) as file:
        for _ in range(output_bytes * 5 // 4 // len(ZEROS) + 1):
            file.write(ZEROS)
    warm.unlink()


ZEROS = bytes(1 << 20)


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

"""A Slurm cluster of this machine alone, of a test's own: a controller and a node, both plain processes."""
import ctypes
import getpass
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import ports

DAEMONS = ("slurmctld", "slurmd")
PROGRAMS = DAEMONS + ("srun", "sinfo")
SECONDS = 60

# Nobody is asked who they are: it listens at the loopback and lives as long as a test.
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def is_installed():
    return all(shutil.which(name) for name in PROGRAMS)


class Slurm:
    """`with Slurm() as slurm`: slurm.environment is what srun needs."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="shardkit_slurm_")
        folder = pathlib.Path(self._folder.name)
        (folder / "state").mkdir()
        (folder / "spool").mkdir()
        controller_port = ports.free_port()
        (folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=socket.gethostname().split(".")[0], user=getpass.getuser(), folder=folder,
            controller_port=controller_port, node_port=ports.free_port(controller_port + 1)))
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        self._log = open(folder / "log", "w+")
        self._daemons = [subprocess.Popen([name, "-D"], env={**os.environ, **self.environment},
                                          stdout=self._log, stderr=self._log,
                                          preexec_fn=_die_with_parent) for name in DAEMONS]
        try:
            self._wait_for_node()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._log.close()
        self._folder.cleanup()

    def _wait_for_node(self):
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            state = subprocess.run(["sinfo", "--noheader", "--format", "%t"],
                                   env={**os.environ, **self.environment}, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True).stdout.strip()
            if state == "idle":
                return
            time.sleep(0.2)
        self._log.seek(0)
        raise AssertionError("Slurm's node is not there:\n" + self._log.read()[-4000:])


def _die_with_parent():
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

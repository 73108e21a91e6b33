#!/usr/bin/env python3
"""Processes find each other by launchers' variables, and by the launchers that are here."""
import os
import shutil
import subprocess
import unittest

import ports

PROGRAM = os.environ["LAUNCHED_RANKS"]
SECONDS = 60
# What this test itself may have been started with.
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "SLURM_", "OMPI_", "PMI", "TORCHELASTIC_")


def clean_environment(**variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    kept.update(variables)
    return kept


def expected(size, launcher):
    return ["rank %d of %d by %s: %d" % (rank, size, launcher, size * (size - 1) // 2)
            for rank in range(size)]


class LaunchTest(unittest.TestCase):
    def start_by_hand(self, size, launcher, variables_of):
        processes = [subprocess.Popen([PROGRAM], env=clean_environment(**variables_of(str(rank))),
                                      stdout=subprocess.PIPE, text=True) for rank in range(size)]
        self.assertEqual([process.communicate(timeout=SECONDS)[0].strip() for process in processes],
                         expected(size, launcher))

    def launch(self, size, launcher, *command, **variables):
        done = subprocess.run([*command, PROGRAM], env=clean_environment(**variables),
                              stdout=subprocess.PIPE, text=True, timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(sorted(done.stdout.split("\n"))[1:], expected(size, launcher))

    def test_variables_of_torch_distributed(self):
        port = str(ports.free_port())
        self.start_by_hand(3, "torchrun", lambda rank: {
            "RANK": rank, "WORLD_SIZE": "3", "MASTER_ADDR": "localhost", "MASTER_PORT": port})

    def test_variables_of_srun(self):
        job = str(os.getpid())
        self.start_by_hand(3, "srun", lambda rank: {
            "SLURM_PROCID": rank, "SLURM_NTASKS": "3", "SLURM_STEP_NODELIST": "localhost",
            "SLURM_JOB_ID": job, "SLURM_STEP_ID": "0"})

    def test_no_launcher(self):
        done = subprocess.run([PROGRAM], env=clean_environment(), stdout=subprocess.PIPE, text=True,
                              timeout=SECONDS)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no launcher has started this process", done.stdout)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
    def test_mpirun(self):
        self.launch(4, "mpirun", "mpirun", "-n", "4", "--oversubscribe",
                    OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
    def test_mpirun_in_a_slurm_job(self):
        self.launch(4, "mpirun", "mpirun", "-n", "4", "--oversubscribe",
                    OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                    SLURM_PROCID="0", SLURM_NTASKS="1")

    @unittest.skipUnless(shutil.which("torchrun"), "no torchrun here")
    def test_torchrun(self):
        self.launch(4, "torchrun", "torchrun", "--standalone", "--nproc-per-node", "4",
                    "--no-python")


if __name__ == "__main__":
    unittest.main()

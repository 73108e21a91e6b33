#!/usr/bin/env python3
"""Processes find each other by launchers' variables, and by the launchers that are here."""
import os
import pathlib
import subprocess
import unittest

import ports
import slurm
from launchers import MPIRUN, clean_environment, has_mpirun, needs, needs_torchrun

PROGRAM = os.environ["LAUNCHED_RANKS"]
EXAMPLE = os.environ["LAUNCHED_EXAMPLE"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "fixtures" / "torch-2.13.0" / "fsdp2_fp32_w4"
SECONDS = 60


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

    def run_example(self, script, **variables):
        """The script starts 4 processes that load and gather the sample, whatever the launcher."""
        done = subprocess.run([ROOT / "examples" / "launch" / script, EXAMPLE, SAMPLE, "4"],
                              env=clean_environment(**variables), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("gathered 27 tensors from 4 ranks\nrestored them from a snapshot\n", done.stdout)

    @needs(has_mpirun(), "mpirun of Open MPI")
    def test_mpirun(self):
        self.launch(4, "mpirun", "mpirun", "-n", "4", **MPIRUN)
        self.run_example("mpirun.sh", **MPIRUN)

    @needs(has_mpirun(), "mpirun of Open MPI")
    def test_mpirun_in_a_slurm_job(self):
        self.launch(4, "mpirun", "mpirun", "-n", "4", SLURM_PROCID="0", SLURM_NTASKS="1",
                    **MPIRUN)

    @needs(slurm.is_installed(), "srun with slurmctld and slurmd")
    def test_srun(self):
        with slurm.Slurm() as cluster:
            self.launch(4, "srun", "srun", "--ntasks", "4", **cluster.environment)
            self.run_example("srun.sh", **cluster.environment)

    @needs_torchrun
    def test_torchrun(self):
        self.launch(4, "torchrun", "torchrun", "--standalone", "--nproc-per-node", "4",
                    "--no-python")
        self.run_example("torchrun.sh")


if __name__ == "__main__":
    unittest.main()

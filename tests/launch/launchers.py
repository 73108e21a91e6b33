"""The launchers that are here, and an environment in which none of them has started anything."""
import os
import shutil
import subprocess
import unittest

# What a test itself may have been started with.
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "SLURM_", "OMPI_", "PMI", "TORCHELASTIC_")

# mpirun's, so that it starts more processes than there are cores, as whoever it is.
MPIRUN = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
          "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def clean_environment(**variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(VARIABLES)}
    kept.update(variables)
    return kept


def has_mpirun():
    """Open MPI's: MPICH and Intel MPI have a program of that name, too."""
    if not shutil.which("mpirun"):
        return False
    said = subprocess.run(["mpirun", "--version"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    return "Open MPI" in said.stdout


def needs(is_there, what):
    """Skips a test whose launcher is not here; where SHARDKIT_REQUIRE_LAUNCHERS is set, it then fails."""
    required = os.environ.get("SHARDKIT_REQUIRE_LAUNCHERS")
    return unittest.skipUnless(is_there or required, "NOT RUN: no %s here" % what)


# Required of tests/interop alone, where PyTorch is.
needs_torchrun = unittest.skipUnless(shutil.which("torchrun"),
                                     "NOT RUN: no torchrun here; see tests/interop")

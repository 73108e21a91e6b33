#!/bin/sh
#SBATCH --ntasks=4
# Loads a sharded checkpoint into the tasks of a Slurm job, on as many nodes as it has:
#
#     sbatch examples/launch/srun.sh build/examples/example_load_and_gather CHECKPOINT
#     examples/launch/srun.sh PROGRAM CHECKPOINT [PROCESSES]
#
# Where the nodes' own names lead to their loopback: export GLOO_SOCKET_IFNAME=INTERFACE before.
set -eu
exec srun --ntasks "${3:-4}" "$1" "$2"

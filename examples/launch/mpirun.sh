#!/bin/sh
# Loads a sharded checkpoint into processes that mpirun (Open MPI) or mpiexec (MPICH) starts, on this
# machine:
#
#     examples/launch/mpirun.sh build/examples/example_load_and_gather CHECKPOINT [PROCESSES]
#
# On several hosts: mpirun -n 8 -H node1:4,node2:4 -x MASTER_ADDR=node1 PROGRAM CHECKPOINT
# mpiexec of MPICH needs a port: MASTER_PORT=29500.
set -eu
exec mpirun -n "${3:-4}" "$1" "$2"

#!/bin/sh
# Loads a sharded checkpoint into processes that torchrun starts, on this machine:
#
#     examples/launch/torchrun.sh build/examples/example_load_and_gather CHECKPOINT [PROCESSES]
#
# On several, run on each: torchrun --nnodes N --node-rank R --nproc-per-node P
#   --master-addr HOST_0 --master-port 29500 --no-python PROGRAM CHECKPOINT
set -eu
exec torchrun --standalone --nproc-per-node "${3:-4}" --no-python "$1" "$2"

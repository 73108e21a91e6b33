// LaunchEnvironment: which of how many processes this is, and where all of them meet.
#pragma once

#include <string>

#include "shardkit/base/environment.h"
#include "shardkit/base/result.h"

namespace shardkit {

struct LaunchEnvironment {
  std::string launcher;  ///< whose variables said so: "torchrun", "srun", "mpirun" or "mpiexec"
  int rank = 0;          ///< 0 to size - 1
  int size = 1;
  std::string master_address;  ///< a name or an address of the host of rank 0
  int master_port = 0;         ///< 1 to 65535: where rank 0 listens while the group is made
};

/// Reads what a launcher has told this process. The first that is there counts:
///
/// - RANK, WORLD_SIZE: torchrun, and whoever sets the variables of torch.distributed's "env://"
/// - OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE: Open MPI's mpirun
/// - PMI_RANK, PMI_SIZE: MPICH's and Intel MPI's mpiexec; but srun may set them as well, and then
///   they are equal to its own
/// - SLURM_PROCID, SLURM_NTASKS: srun (SLURM_STEP_NUM_TASKS goes before SLURM_NTASKS). A Slurm job
///   sets them also for what mpirun and mpiexec start in it, with another meaning
///
/// MASTER_ADDR and MASTER_PORT say where to meet, whatever the launcher. torchrun's agent itself
/// listens at MASTER_PORT (it sets TORCHELASTIC_USE_AGENT_STORE to True): then it is the port after
/// it. Without MASTER_ADDR, srun's processes meet at the first host of SLURM_STEP_NODELIST; the
/// others at 127.0.0.1, if all are on one host. Without MASTER_PORT, the port of srun's and
/// mpirun's processes follows from the job's name.
///
/// @error kNotFound         no launcher's variables are there
/// @error kInvalidArgument  one is missing or no number, or nothing says where to meet
Result<LaunchEnvironment> read_launch_environment(const Environment& environment);

/// The same from this process' environment. Not while another thread changes it.
Result<LaunchEnvironment> read_launch_environment();

}  // namespace shardkit

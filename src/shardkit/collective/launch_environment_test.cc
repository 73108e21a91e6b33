// What launchers' variables mean; the values are those that the launchers set.
#include "shardkit/collective/launch_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;
using Variables = std::map<std::string, std::string>;

Result<LaunchEnvironment> read(const Variables& variables) {
  return read_launch_environment([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

const Variables kTorchrun{{"RANK", "5"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "4"},
                          {"MASTER_PORT", "29500"},
                          {"MASTER_ADDR", "node1"}};
const Variables kSrun{
    {"SLURM_PROCID", "2"},    {"SLURM_NTASKS", "16"}, {"SLURM_STEP_NUM_TASKS", "4"},
    {"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "gpu[07-08,11]"},
    {"PMI_RANK", "2"},        {"PMI_SIZE", "4"}};
const Variables kMpirun{{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"PMIX_NAMESPACE", "3607822337"}};
const Variables kMpiexec{{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"MPI_LOCALNRANKS", "3"}};

TEST(LaunchEnvironment, Torchrun) {
  const auto found = read(kTorchrun);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->launcher, "torchrun");
  EXPECT_EQ(found->rank, 5);
  EXPECT_EQ(found->size, 8);
  EXPECT_EQ(found->master_address, "node1");
  EXPECT_EQ(found->master_port, 29500);
}

TEST(LaunchEnvironment, TheAgentOfTorchrunHasThePortItself) {
  EXPECT_EQ(read(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "True"))->master_port, 29501);
  EXPECT_EQ(read(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "False"))->master_port, 29500);
}

TEST(LaunchEnvironment, Srun) {
  const auto found = read(kSrun);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->launcher, "srun");
  EXPECT_EQ(found->rank, 2);
  EXPECT_EQ(found->size, 4);  // of the step, not of the job
  EXPECT_EQ(found->master_address, "gpu07");
  EXPECT_EQ(read(with(without(kSrun, "SLURM_STEP_NUM_TASKS"), "PMI_SIZE", "16"))->size, 16);
  EXPECT_EQ(read(with(kSrun, "MASTER_ADDR", "head"))->master_address, "head");
  EXPECT_EQ(read(with(kSrun, "MASTER_PORT", "7777"))->master_port, 7777);
}

TEST(LaunchEnvironment, TheFirstHostOfASlurmList) {
  for (const auto& [list, first] : Variables{{"node3", "node3"},
                                             {"node3,node1", "node3"},
                                             {"node[3,5]", "node3"},
                                             {"node[08-10]-ib,other", "node08-ib"},
                                             {"a.b.c,d", "a.b.c"}})
    EXPECT_EQ(read(with(kSrun, "SLURM_STEP_NODELIST", list))->master_address, first) << list;
}

TEST(LaunchEnvironment, ThePortFollowsFromTheJob) {
  const int port = read(kSrun).value().master_port;
  EXPECT_GE(port, 20000);
  EXPECT_LT(port, 30000);
  const Variables other_rank = with(with(kSrun, "SLURM_PROCID", "3"), "PMI_RANK", "3");
  EXPECT_EQ(read(other_rank).value().master_port, port);
  EXPECT_NE(read(with(kSrun, "SLURM_STEP_ID", "1")).value().master_port, port);
  EXPECT_NE(read(with(kSrun, "SLURM_JOB_ID", "4712")).value().master_port, port);
}

TEST(LaunchEnvironment, Mpirun) {
  const auto found = read(kMpirun);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->launcher, "mpirun");
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->size, 2);
  EXPECT_EQ(found->master_address, "127.0.0.1");  // all on this host
  EXPECT_THAT(read(with(kMpirun, "OMPI_COMM_WORLD_LOCAL_SIZE", "1")),
              Fails(ErrorCode::kInvalidArgument,
                    "mpirun does not say on which host rank 0 is: set "
                    "MASTER_ADDR"));
}

Variables both(Variables variables, const Variables& more) {
  variables.insert(more.begin(), more.end());
  return variables;
}

// What a Slurm job sets for its script, or for the helper that mpirun starts on each host: the
// processes that mpirun starts inherit it.
const Variables kInSlurm{{"SLURM_PROCID", "0"},         {"SLURM_NTASKS", "1"},
                         {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_JOB_ID", "4711"},
                         {"SLURM_STEP_ID", "7"},        {"SLURM_STEP_NODELIST", "gpu07"}};

TEST(LaunchEnvironment, MpirunInASlurmJob) {
  const auto found = read(both(kMpirun, kInSlurm));
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->launcher, "mpirun");
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->size, 2);
  EXPECT_EQ(found->master_address, "127.0.0.1");
  // Its processes are in different steps: only what mpirun says of the job is the same for all.
  EXPECT_EQ(found->master_port, read(kMpirun)->master_port);
  EXPECT_NE(read(with(kMpirun, "PMIX_NAMESPACE", "3607822338"))->master_port, found->master_port);
}

TEST(LaunchEnvironment, MpiexecInASlurmJob) {
  const Variables two{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MASTER_PORT", "29400"}};
  for (const auto& [launched, rank] :
       {std::pair(with(kMpiexec, "MASTER_PORT", "29400"), 0),
        std::pair(with(two, "MPI_LOCALNRANKS", "2"), 1),
        std::pair(with(two, "MASTER_ADDR", "a"), 1),
        // A single process: only mpiexec's own variable tells whose it is.
        std::pair(Variables{{"PMI_RANK", "0"},
                            {"PMI_SIZE", "1"},
                            {"MPI_LOCALNRANKS", "1"},
                            {"MASTER_PORT", "29400"}},
                  0)}) {
    const auto found = read(both(launched, kInSlurm));
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(found->launcher, "mpiexec");
    EXPECT_EQ(found->rank, rank);
    EXPECT_EQ(std::to_string(found->size), launched.at("PMI_SIZE"));
  }
}

// Without srun's own variables of the step, or with half of PMI's, it is srun all the same.
TEST(LaunchEnvironment, SrunThatSpeaksPmi) {
  for (const Variables& variables :
       {kSrun, without(kSrun, "PMI_SIZE"),
        with(without(kSrun, "SLURM_STEP_NUM_TASKS"), "PMI_SIZE", "16")}) {
    const auto found = read(variables);
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(found->launcher, "srun");
    EXPECT_EQ(found->rank, 2);
  }
}

TEST(LaunchEnvironment, APortOfAnotherLaunchersJobIsNone) {
  const auto launched = without(kTorchrun, "MASTER_PORT");
  EXPECT_THAT(read(both(launched, kInSlurm)),
              Fails(ErrorCode::kInvalidArgument, "set MASTER_PORT"));
}

TEST(LaunchEnvironment, Mpiexec) {
  EXPECT_THAT(read(kMpiexec), Fails(ErrorCode::kInvalidArgument, "set MASTER_PORT"));
  const auto found = read(with(kMpiexec, "MASTER_PORT", "29400"));
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->launcher, "mpiexec");
  EXPECT_EQ(found->size, 3);
  EXPECT_EQ(found->master_address, "127.0.0.1");
}

TEST(LaunchEnvironment, WhatIsMissingOrNoNumberIsNamed) {
  EXPECT_THAT(read({}), Fails(ErrorCode::kNotFound, "no launcher has started this process"));
  const auto fails = [](const Variables& variables, const std::string& text) {
    EXPECT_THAT(read(variables), Fails(ErrorCode::kInvalidArgument, text)) << text;
  };
  fails(without(kTorchrun, "WORLD_SIZE"),
        "WORLD_SIZE: expected a number from 1 to 1048576, found none");
  fails(with(kTorchrun, "RANK", "8"), "RANK: expected a number from 0 to 7, found 8");
  fails(with(kTorchrun, "RANK", "-1"), "RANK");
  fails(with(kTorchrun, "RANK", "1x"), "found 1x");
  fails(with(kTorchrun, "WORLD_SIZE", "0"), "WORLD_SIZE");
  fails(with(kTorchrun, "MASTER_PORT", "65536"), "MASTER_PORT: expected a number from 1 to 65535");
  fails(with(with(kTorchrun, "MASTER_PORT", "65535"), "TORCHELASTIC_USE_AGENT_STORE", "True"),
        "MASTER_PORT: expected a number from 1 to 65534");
  fails(without(kTorchrun, "MASTER_ADDR"), "set MASTER_ADDR");
  fails(without(kTorchrun, "MASTER_PORT"), "set MASTER_PORT");
}

}  // namespace
}  // namespace shardkit

// Shared memory between processes: the same bytes, checked sizes, no name that outlives its owner.
#include "shardkit/state/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <optional>

#include "shardkit/state/memory.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;

// Names in /dev/shm that this process owns.
int own_names() {
  int count = 0;
  const std::string prefix = fmt::format("shardkit-{}-", ::getpid());
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    count += entry.path().filename().string().starts_with(prefix);
  return count;
}

// What `fn` returns in a child of this process, 0 to 255.
template <class Fn>
int in_a_child(const Fn& fn) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(fn());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST(SharedMemory, AnotherProcessReadsAndWritesTheSameBytes) {
  const Tensor mine = make_cpu_tensor(DType::kInt32, {2, 3}, {.share_memory = true}).value();
  const std::string name = shared_memory_name(mine).value();
  auto* numbers = reinterpret_cast<std::int32_t*>(mine.storage->memory()->data);
  EXPECT_EQ(numbers[5], 0);
  numbers[5] = 17;
  EXPECT_EQ(in_a_child([&] {
              const auto theirs = open_shared_tensor(name, DType::kInt32, {2, 3});
              if (!theirs.ok()) return 1;
              auto* seen = reinterpret_cast<std::int32_t*>(theirs->storage->memory()->data);
              if (seen == numbers || seen[5] != 17) return 2;
              if (shared_memory_name(*theirs) != name) return 3;
              seen[0] = 23;
              return 0;
            }),
            0);
  EXPECT_EQ(numbers[0], 23);
  EXPECT_EQ(own_names(), 1) << "a process that opened a run leaves its name alone";
}

TEST(SharedMemory, AChildOfTheOwnerRemovesNoName) {
  std::optional<Tensor> mine = make_cpu_tensor(DType::kInt8, {5}, {.share_memory = true}).value();
  const std::string name = shared_memory_name(*mine).value();
  EXPECT_EQ(in_a_child([&] {
              mine.reset();
              return 0;
            }),
            0);
  EXPECT_THAT(SharedMemory::open(name, 5), IsOk());
}

TEST(SharedMemory, TheNameGoesWithTheLastTensorOfTheOwner) {
  std::string name;
  std::optional<Tensor> opened;
  {
    Tensor view;
    {
      const Tensor mine = make_cpu_tensor(DType::kInt8, {3}, {.share_memory = true}).value();
      name = shared_memory_name(mine).value();
      view = mine;
    }
    EXPECT_EQ(own_names(), 1);
    opened = open_shared_tensor(name, DType::kInt8, {3}).value();
    view.storage->memory()->data[2] = std::byte{7};
  }
  EXPECT_EQ(own_names(), 0);
  EXPECT_THAT(SharedMemory::open(name, 3), Fails(ErrorCode::kNotFound, name));
  EXPECT_EQ(opened->storage->memory()->data[2], std::byte{7}) << "mapped memory stays";
}

TEST(SharedMemory, SizesAreCheckedOnOpening) {
  const SharedMemory memory = SharedMemory::create(12).value();
  EXPECT_EQ(memory.bytes(), 12u);
  EXPECT_THAT(SharedMemory::open(memory.name(), 13),
              Fails(ErrorCode::kInvalidArgument, "expected 13 bytes, found 12 bytes"));
  EXPECT_THAT(open_shared_tensor(memory.name(), DType::kFloat64, {2}),
              Fails(ErrorCode::kInvalidArgument, "another size"));
  EXPECT_THAT(open_shared_tensor(memory.name(), DType::kFloat64, {-2}),
              Fails(ErrorCode::kInvalidArgument, "no tensor can have this shape"));
  EXPECT_THAT(open_shared_tensor(memory.name(), DType::kFloat32, {3, 1}), IsOk());
}

TEST(SharedMemory, NamesOfOthersAreRefused) {
  for (const char* name : {"", "shardkit-1", "/other", "/shardkit-1/../2", "/shardkit-1 2"})
    EXPECT_THAT(SharedMemory::open(name, 1),
                Fails(ErrorCode::kInvalidArgument, "no shared memory of shardkit's"))
        << name;
  EXPECT_THAT(SharedMemory::open("/shardkit-0-0", 1),
              Fails(ErrorCode::kNotFound, "no process owns"));
}

TEST(SharedMemory, NoBytesHaveANameToo) {
  const Tensor mine = make_cpu_tensor(DType::kInt8, {0, 4}, {.share_memory = true}).value();
  const std::string name = shared_memory_name(mine).value();
  EXPECT_THAT(open_shared_tensor(name, DType::kInt8, {4, 0}), IsOk());
  EXPECT_THAT(open_shared_tensor(name, DType::kInt8, {1}),
              Fails(ErrorCode::kInvalidArgument, "another size"));
}

TEST(SharedMemory, AFullMachineIsAnErrorAndLeavesNoName) {
  EXPECT_THAT(SharedMemory::create(std::uint64_t{1} << 62),
              Fails(ErrorCode::kLimit, "no room for shared memory"));
  EXPECT_THAT(SharedMemory::create(UINT64_MAX),
              Fails(ErrorCode::kLimit, "no room for shared memory"));
  EXPECT_THAT(make_cpu_tensor(DType::kInt8, {std::int64_t{1} << 62}, {.share_memory = true}),
              Fails(ErrorCode::kLimit, "no room for shared memory"));
  EXPECT_EQ(own_names(), 0);
}

TEST(SharedMemory, WhatTheSystemRefusesIsAnError) {
  const SharedMemory memory = SharedMemory::create(4).value();
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit none{0, usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto created = SharedMemory::create(4);
  const auto opened = SharedMemory::open(memory.name(), 4);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_THAT(created, Fails(ErrorCode::kIo, "cannot create shared memory: Too many open files"));
  EXPECT_THAT(opened, Fails(ErrorCode::kIo, "cannot open shared memory: Too many open files"));
}

TEST(SharedMemory, MoreThanTheAddressesOfAProcessIsAnError) {
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 61;
  const std::string name = fmt::format("/shardkit-{}-{:x}", ::getpid(), kBytes);
  const int file = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  EXPECT_EQ(::ftruncate(file, static_cast<off_t>(kBytes)), 0);  // takes no memory
  EXPECT_THAT(SharedMemory::open(name, kBytes),
              Fails(ErrorCode::kLimit, "no addresses for shared memory"));
  EXPECT_EQ(::shm_unlink(name.c_str()), 0);
  EXPECT_EQ(::close(file), 0);
}

TEST(SharedMemory, EachTensorOfAStateDictHasAName) {
  const Value state = testing::make_dict(
      {{"w", testing::float_tensor({2}, {1, 2})}, {"l", List{{testing::float_tensor({}, {1})}}}});
  {
    const Value made = create_cpu_state_dict(state, {.share_memory = true}).value();
    EXPECT_EQ(own_names(), 2);
    const Dict& dict = *made.get_if<Dict>();
    EXPECT_NE(shared_memory_name(*find(dict, "w")->get_if<Tensor>()),
              shared_memory_name(*find(dict, "l")->get_if<List>()->items[0].get_if<Tensor>()));
  }
  EXPECT_EQ(own_names(), 0);
  EXPECT_FALSE(shared_memory_name(testing::float_tensor({2}, {1, 2})));
  EXPECT_FALSE(shared_memory_name(make_cpu_tensor(DType::kInt8, {2}).value()));
}

}  // namespace
}  // namespace shardkit

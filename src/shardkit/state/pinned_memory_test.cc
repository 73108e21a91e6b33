// Pinned memory with a stand-in for the CUDA runtime, loaded as the real one is; no GPU is needed.
#include "shardkit/state/pinned_memory.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "shardkit/state/memory.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using testing::all_zero;
using testing::Fails;
using testing::float_tensor;
using testing::IsOk;

// The functions that tests/cuda_stand_in has beside the runtime's.
class StandIn {
 public:
  StandIn() : library_(::dlopen(SHARDKIT_CUDA_STAND_IN, RTLD_NOW)) {}
  ~StandIn() { ::dlclose(library_); }

  int calls() const { return call<int>("stand_in_calls"); }
  int misuses() const { return call<int>("stand_in_misuses"); }
  int last_error() const { return call<int>("stand_in_last_error"); }
  std::size_t allocated() const { return call<std::size_t>("stand_in_allocated"); }
  std::size_t registered() const { return call<std::size_t>("stand_in_registered"); }
  void fail_next(int code) const {
    reinterpret_cast<void (*)(int)>(::dlsym(library_, "stand_in_fail_next"))(code);
  }

 private:
  template <class T>
  T call(const char* name) const {
    return reinterpret_cast<T (*)()>(::dlsym(library_, name))();
  }

  void* library_;
};

class PinnedMemory : public ::testing::Test {
 protected:
  ~PinnedMemory() override {
    EXPECT_EQ(runtime_.allocated(), 0u) << "all that was allocated is freed";
    EXPECT_EQ(runtime_.registered(), 0u) << "all that was registered is unregistered";
    EXPECT_EQ(runtime_.misuses(), 0);
    EXPECT_EQ(runtime_.last_error(), 0) << "the engine's own checks must not meet our errors";
  }

  MemoryOptions pinned(bool share = false) const {
    return {share, true, load_host_pinner(SHARDKIT_CUDA_STAND_IN).value()};
  }

  StandIn runtime_;
};

TEST_F(PinnedMemory, FreshMemoryIsTheRuntimes) {
  const int before = runtime_.calls();
  {
    const Tensor tensor = make_cpu_tensor(DType::kFloat32, {1000}, pinned()).value();
    EXPECT_TRUE(all_zero(tensor));
    EXPECT_FALSE(shared_memory_name(tensor));
    const Tensor view = tensor;
    EXPECT_EQ(runtime_.allocated(), 1u);
    EXPECT_EQ(runtime_.registered(), 0u);
    const Tensor unfilled = make_unfilled_cpu_tensor(DType::kInt8, {5}, pinned()).value();
    EXPECT_EQ(runtime_.allocated(), 2u);
  }
  EXPECT_EQ(runtime_.calls() - before, 2);
}

TEST_F(PinnedMemory, SharedMemoryIsRegistered) {
  Tensor opened;
  {
    const Tensor tensor = make_cpu_tensor(DType::kInt32, {3}, pinned(true)).value();
    EXPECT_TRUE(all_zero(tensor));
    EXPECT_EQ(runtime_.allocated(), 0u);
    EXPECT_EQ(runtime_.registered(), 1u);
    const std::string name = shared_memory_name(tensor).value();
    opened = open_shared_tensor(name, DType::kInt32, {3}).value();
    EXPECT_EQ(runtime_.registered(), 1u) << "each process pins for itself";
    tensor.storage->memory()->data[4] = std::byte{9};
  }
  EXPECT_EQ(runtime_.registered(), 0u);
  EXPECT_EQ(opened.storage->memory()->data[4], std::byte{9});
}

TEST_F(PinnedMemory, AStateDictOfAllKinds) {
  const auto dtensor =
      DTensor{float_tensor({2}, {1, 2}), testing::make_sharding({2}, {0, 1}, {Shard{0}}, {4})};
  const Value state = testing::make_dict({{"w", dtensor},
                                          {"scalar", float_tensor({}, {1})},
                                          {"none", float_tensor({0, 3}, {})},
                                          {"object", Opaque{"a.B", {float_tensor({1}, {1})}}}});
  for (const bool share : {false, true}) {
    const auto made = create_cpu_state_dict(state, pinned(share));
    ASSERT_THAT(made, IsOk());
    EXPECT_EQ(runtime_.allocated(), share ? 0u : 2u) << "w and scalar";
    EXPECT_EQ(runtime_.registered(), share ? 2u : 0u);
    const Dict& dict = *made->get_if<Dict>();
    EXPECT_TRUE(all_zero(find(dict, "w")->get_if<DTensor>()->local));
    EXPECT_EQ(find(dict, "w")->get_if<DTensor>()->sharding, dtensor.sharding);
    EXPECT_EQ(shared_memory_name(*find(dict, "none")->get_if<Tensor>()).has_value(), share);
  }
}

TEST_F(PinnedMemory, AFailureNamesCodeAndTextAndLeavesNothing) {
  const auto fails_with = [&](int code, bool share) {
    runtime_.fail_next(code);
    return make_cpu_tensor(DType::kInt8, {64}, pinned(share));
  };
  EXPECT_THAT(fails_with(2, false),
              Fails(ErrorCode::kLimit, "cudaHostAlloc of 64 bytes failed with 2: out of memory"));
  EXPECT_THAT(fails_with(2, true), Fails(ErrorCode::kLimit, "cudaHostRegister of 64 bytes"));
  EXPECT_THAT(fails_with(100, false), Fails(ErrorCode::kUnsupported, "no CUDA-capable device"));
  EXPECT_THAT(fails_with(999, true), Fails(ErrorCode::kIo, "failed with 999"));
}

TEST_F(PinnedMemory, WhatAStateDictHadUntilAFailureIsGone) {
  const Value state = List{{float_tensor({2}, {1, 2}), float_tensor({2}, {1, 2})}};
  const auto memory = pinned(true);
  // The second of two fails, since the first takes the runtime's error away.
  class SecondFails : public HostPinner {
   public:
    explicit SecondFails(std::shared_ptr<HostPinner> pinner) : pinner_(std::move(pinner)) {}
    Result<std::byte*> allocate(std::size_t bytes) override { return pinner_->allocate(bytes); }
    void free(std::byte* data) noexcept override { pinner_->free(data); }
    Status pin(std::byte* data, std::size_t bytes) override {
      if (++count_ == 2) return Error(ErrorCode::kLimit, "no more");
      return pinner_->pin(data, bytes);
    }
    void unpin(std::byte* data) noexcept override { pinner_->unpin(data); }

   private:
    std::shared_ptr<HostPinner> pinner_;
    int count_ = 0;
  };
  const auto made =
      create_cpu_state_dict(state, {true, true, std::make_shared<SecondFails>(memory.pinner)});
  EXPECT_THAT(made, Fails(ErrorCode::kLimit, "no more"));
  EXPECT_EQ(made.error().tensor(), "1");
}

TEST(HostPinner, ALibraryThatIsNoRuntimeIsUnsupported) {
  EXPECT_THAT(load_host_pinner("/nowhere/libcudart.so.13"),
              Fails(ErrorCode::kUnsupported,
                    "pin_memory needs the CUDA runtime, which cannot be loaded: /nowhere/"));
  // Some other library.
  EXPECT_THAT(load_host_pinner("libc.so.6"),
              Fails(ErrorCode::kUnsupported, "has no cudaHostAlloc"));
}

// The machine may have no runtime, one without a GPU, or both.
TEST(HostPinner, TheMachinesOwnRuntimeWorksOrIsUnsupported) {
  const auto pinner = cuda_host_pinner();
  const std::string reason = pinner.ok()
                                 ? "pin_memory: cudaHost"
                                 : "expected libcudart.so.13, libcudart.so.12, libcudart.so.11.0";
  const Value state = testing::make_dict({{"w", float_tensor({2}, {1, 2})}});
  for (const bool share : {false, true}) {
    const auto made = create_cpu_state_dict(state, {share, true, nullptr});
    if (made.ok()) continue;
    EXPECT_THAT(made, Fails(ErrorCode::kUnsupported, reason));
    EXPECT_EQ(made.error().tensor(), "w");
  }
}

}  // namespace
}  // namespace shardkit

// A library with the CUDA runtime's functions for pinned memory, which only counts; for tests.
//
// Its functions have the names and types of cuda_runtime_api.h (CUDA 11 to 13). Pinned memory is
// ordinary memory here. What is wrong with a call (memory that is not known, or known already) is
// counted, too: the tests want none.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace {

struct State {
  std::mutex mutex;
  std::map<void*, std::size_t> allocated;
  std::map<void*, std::size_t> registered;
  int calls = 0;
  int misuses = 0;
  int next_error = 0;  // of the next call that makes something
  int last_error = 0;
};

State& state() {
  static State the_state;
  return the_state;
}

constexpr int kInvalidValue = 1;
constexpr unsigned kPortable = 1;

// REQUIRES: locked.
int result(int code) {
  if (code != 0) state().last_error = code;
  return code;
}

int begin_call(std::size_t bytes, unsigned flags) {
  State& s = state();
  ++s.calls;
  if (bytes == 0 || flags != kPortable) return ++s.misuses, kInvalidValue;
  const int error = s.next_error;
  s.next_error = 0;
  return error;
}

}  // namespace

extern "C" {

int cudaHostAlloc(void** data, std::size_t bytes, unsigned flags) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (const int error = begin_call(bytes, flags)) return result(error);
  *data = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  std::memset(*data, 0xA5, bytes);  // nobody may take it for zeros
  s.allocated[*data] = bytes;
  return 0;
}

int cudaFreeHost(void* data) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.allocated.erase(data) == 0) return ++s.misuses, result(kInvalidValue);
  std::free(data);
  return 0;
}

int cudaHostRegister(void* data, std::size_t bytes, unsigned flags) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (const int error = begin_call(bytes, flags)) return result(error);
  if (!s.registered.emplace(data, bytes).second) return ++s.misuses, result(712);
  // Memory that is registered must be there.
  std::memset(data, *static_cast<unsigned char*>(data), 1);
  return 0;
}

int cudaHostUnregister(void* data) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.registered.erase(data) == 0) return ++s.misuses, result(713);
  // As long as it is registered it must be there.
  std::memset(data, *static_cast<unsigned char*>(data), 1);
  return 0;
}

int cudaGetLastError() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const int error = s.last_error;
  s.last_error = 0;
  return error;
}

const char* cudaGetErrorString(int code) {
  switch (code) {
    case 2: return "out of memory";
    case 100: return "no CUDA-capable device is detected";
    default: return "some error";
  }
}

// For the tests.

void stand_in_fail_next(int code) { state().next_error = code; }
int stand_in_calls() { return state().calls; }
int stand_in_misuses() { return state().misuses; }
int stand_in_last_error() { return state().last_error; }
std::size_t stand_in_allocated() { return state().allocated.size(); }
std::size_t stand_in_registered() { return state().registered.size(); }

}  // extern "C"

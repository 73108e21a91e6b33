// Runs an operation on state dicts, its ranks threads or processes, on files that PyTorch wrote:
//
//   state_dict_ops OPERATION IN OUT RANKS [NAME=VALUE...]
//
// With backend=gloo it is one of RANKS processes that a launcher has started; without, all of them.
// It reads IN/rank_R.pt and writes OUT/rank_R.pt for every rank. If the operation fails it prints
// "CODE: MESSAGE" of each rank and exits 3. test_state_dict_ops.py compares with PyTorch.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "operations.h"
#include "shardkit/collective/gloo/gloo_group.h"
#include "shardkit/collective/thread_group.h"
#include "shardkit/io/file_system.h"
#include "shardkit/state/tree_map_internal.h"
#include "shardkit/torch_pt/reader.h"
#include "shardkit/torch_pt/writer.h"

namespace shardkit::interop {
namespace {

// Brings the storages of a file into memory; tensors that share one do so still.
class StorageLoader : public internal::TreeMap {
 public:
  explicit StorageLoader(const RandomAccessFile& file) : file_(file) {}

 private:
  Result<Value> tensor(const Value& value) override {
    Value loaded = value;
    if (auto* tensor = loaded.get_if<Tensor>()) SHARDKIT_TRY(load(*tensor));
    if (auto* dtensor = loaded.get_if<DTensor>()) SHARDKIT_TRY(load(dtensor->local));
    if (auto* sharded = loaded.get_if<ShardedTensor>())
      for (auto& shard : sharded->local_shards) SHARDKIT_TRY(load(shard.tensor));
    return loaded;
  }
  Result<Value> object(const Value& value) override { return value; }

  Status load(Tensor& tensor) {
    if (!tensor.storage->file()) return {};
    auto& loaded = loaded_[tensor.storage.get()];
    if (!loaded) {
      const auto bytes = std::make_shared<std::vector<std::byte>>(tensor.storage->bytes());
      SHARDKIT_TRY(file_.read_at(tensor.storage->file()->offset, *bytes));
      loaded = std::make_shared<const Storage>(MemoryBlock{bytes, bytes->data()}, bytes->size());
    }
    tensor.storage = loaded;
    return {};
  }

  const RandomAccessFile& file_;
  std::unordered_map<const Storage*, std::shared_ptr<const Storage>> loaded_;
};

Result<Value> read_rank(const std::string& path) {
  SHARDKIT_ASSIGN(const auto file, posix_file_system().open(path));
  SHARDKIT_ASSIGN(const PtFile pt, read_pt(*file));
  return StorageLoader(*file).map(pt.root);
}

Status write_rank(const std::string& path, const Value& value, int rank) {
  SHARDKIT_ASSIGN(const auto file, posix_file_system().create(path));
  PtWriteOptions options;
  options.rank = rank;
  SHARDKIT_TRY(write_pt(*file, value, options));
  return file->close();
}

const Operation* find_operation(std::string_view name) {
  for (const auto operations : {gather_operations(), local_operations(), spread_operations()})
    for (const Operation& operation : operations)
      if (operation.name == name) return &operation;
  return nullptr;
}

// This process' rank of those that a launcher has started.
Status run_launched(const std::function<Status(ProcessGroup&)>& run_rank,
                    const GroupOptions& options) {
  SHARDKIT_ASSIGN(const LaunchEnvironment environment, read_launch_environment());
  GlooOptions gloo;
  gloo.group = options;
  SHARDKIT_ASSIGN(const auto group, make_gloo_group(environment, gloo));
  return run_rank(*group);
}

int run(int argc, char** argv) {
  const Operation* operation = argc >= 5 ? find_operation(argv[1]) : nullptr;
  if (!operation) {
    std::fprintf(stderr, "usage: state_dict_ops OPERATION IN OUT RANKS [NAME=VALUE...]\n");
    return 2;
  }
  std::map<std::string, std::string> arguments;
  for (int i = 5; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto equals = argument.find('=');
    arguments[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  const auto run_rank = [&](ProcessGroup& group) -> Status {
    const std::string name = "/rank_" + std::to_string(group.rank()) + ".pt";
    SHARDKIT_ASSIGN(Value input, read_rank(argv[2] + name));
    SHARDKIT_ASSIGN(const Value output, operation->run({group, std::move(input), arguments}));
    return write_rank(argv[3] + name, output, group.rank());
  };
  const GroupOptions options{std::chrono::minutes(1)};
  const auto statuses = arguments["backend"] == "gloo"
                            ? std::vector<Status>{run_launched(run_rank, options)}
                            : run_ranks(std::atoi(argv[4]), run_rank, options);
  bool ok = true;
  for (const Status& status : statuses) {
    ok = ok && status.ok();
    if (!status.ok())
      std::printf("%s: %s\n", std::string(to_string(status.error().code())).c_str(),
                  status.error().message().c_str());
  }
  return ok ? 0 : 3;
}

}  // namespace

std::string Call::text(const std::string& name, const std::string& otherwise) const {
  const auto found = arguments.find(name);
  return found == arguments.end() ? otherwise : found->second;
}

bool Call::flag(const std::string& name, bool otherwise) const {
  return text(name, otherwise ? "1" : "0") == "1";
}

std::vector<int> Call::numbers(const std::string& name) const {
  std::vector<int> numbers;
  std::string rest = text(name);
  while (!rest.empty()) {
    numbers.push_back(std::atoi(rest.c_str()));
    const auto comma = rest.find(',');
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
  }
  return numbers;
}

Result<Value> Call::item(std::string_view name) const {
  const auto* dict = input.get_if<Dict>();
  const Value* value = dict ? find(*dict, name) : nullptr;
  if (!value)
    return Error(ErrorCode::kInvalidArgument, "the rank's file lacks an item").found(name);
  return *value;
}

}  // namespace shardkit::interop

int main(int argc, char** argv) { return shardkit::interop::run(argc, argv); }

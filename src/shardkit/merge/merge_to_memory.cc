#include "shardkit/merge/merge_to_memory.h"

#include <cstring>
#include <utility>
#include <vector>

#include "shardkit/plan/tensor_file_internal.h"
#include "shardkit/state/memory.h"

namespace shardkit {
namespace {

class MemorySink final : public BlockSink {
 public:
  explicit MemorySink(std::byte* target) : target_(target) {}

  Status write(std::size_t, std::uint64_t offset, std::span<const std::byte> part) override {
    std::memcpy(target_ + offset, part.data(), part.size());
    return {};
  }

 private:
  std::byte* const target_;
};

}  // namespace

Result<Tensor> merge_to_memory(FileSystem& fs, std::shared_ptr<const Catalog> catalog,
                               std::size_t tensor, DType dtype, ReplicaPolicy replicas,
                               const TransferOptions& options) {
  std::vector<PlannedFile> files = {internal::tensor_file(*catalog, tensor, dtype)};
  SHARDKIT_ASSIGN(const Plan plan, Plan::make(std::move(catalog), std::move(files), replicas));
  SHARDKIT_ASSIGN(Tensor merged,
                  make_unfilled_cpu_tensor(dtype, plan.catalog().tensors[tensor].shape_to_write()));
  SHARDKIT_ASSIGN(std::byte* const target, first_element(merged));
  MemorySink sink(target);
  SHARDKIT_TRY(transfer(plan, fs, sink, options));
  return merged;
}

}  // namespace shardkit

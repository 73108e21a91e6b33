// bench_checkpoint: writes the checkpoints of the benchmarks where there is no PyTorch, or no room.
//
//     bench_checkpoint qwen OUT                        Qwen2.5-0.5B's shapes, fp32, 8 ranks, 2 GB
//     bench_checkpoint sparse OUT RANKS TENSORS BYTES  holes instead of weights
//     bench_checkpoint hard OUT                        transposed, column-sharded and Partial, 1 GB
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardkit/base/checked_math.h"
#include "shardkit/base/dims.h"
#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/io/path.h"
#include "shardkit/layout/device_mesh.h"
#include "shardkit/layout/placement.h"
#include "shardkit/layout/sharding.h"
#include "shardkit/state/value.h"
#include "shardkit/tensor/storage.h"
#include "shardkit/torch_pt/writer.h"

namespace shardkit {
namespace {

/// One line of a state dict.
struct Parameter {
  std::string name;
  Dims shape;
  std::vector<Placement> placements = {Shard{0}};
  bool transposed = false;  ///< the local tensor lies column by column
  bool shares_previous = false;
};

std::shared_ptr<const DeviceMesh> fsdp_mesh(std::int64_t ranks) {
  std::vector<std::int64_t> members;
  for (std::int64_t rank = 0; rank < ranks; ++rank) members.push_back(rank);
  return std::make_shared<const DeviceMesh>(
      DeviceMesh::make("cpu", {ranks}, members, {"fsdp"}).value());
}

/// What one rank holds of a parameter; the storage has no bytes yet.
DTensor local_part(const Parameter& parameter, const std::shared_ptr<const DeviceMesh>& mesh,
                   std::int64_t rank) {
  const auto sharding =
      std::make_shared<const Sharding>(Sharding{mesh, parameter.placements, parameter.shape, {}});
  Tensor local;
  local.shape = local_shape(*sharding, *mesh->coordinate_of(rank));
  local.strides = contiguous_strides(local.shape);
  if (parameter.transposed) local.strides = {1, local.shape[0]};
  local.storage = std::make_shared<const Storage>(
      MemoryBlock{}, static_cast<std::uint64_t>(*element_count(local.shape)) * 4);
  return {std::move(local), sharding};
}

Status write_text(const std::string& path, std::string_view text) {
  SHARDKIT_ASSIGN(const auto file, posix_file_system().create(path));
  SHARDKIT_TRY(file->write_at(0, std::as_bytes(std::span(text))));
  return file->close();
}

Status write_rank(const std::string& folder, const std::vector<Parameter>& parameters,
                  const std::shared_ptr<const DeviceMesh>& mesh, std::int64_t rank, bool holes) {
  Dict state;
  for (const Parameter& parameter : parameters) {
    DTensor part = local_part(parameter, mesh, rank);
    if (parameter.shares_previous)
      part.local.storage = state.items.back().second.get_if<DTensor>()->local.storage;
    state.items.emplace_back(Value(parameter.name), Value(std::move(part)));
  }
  const auto ranks = static_cast<std::int64_t>(mesh->ranks().size());
  const std::string path = fmt::format("{}/model_world_size_{}_rank_{}.pt", folder, ranks, rank);
  SHARDKIT_ASSIGN(const auto file, posix_file_system().create(path));
  PtWriteOptions options;
  options.holes = holes;
  options.rank = rank;
  std::minstd_rand random(static_cast<unsigned>(rank + 1));
  if (!holes)
    options.fill = [&random](const Storage&, std::uint64_t, std::span<std::byte> out) {
      // Floats between 1 and 2: no NaN, and no pattern that a disk could compress.
      for (std::size_t i = 0; i + 4 <= out.size(); i += 4) {
        const std::uint32_t bits = 0x3F800000U | (static_cast<std::uint32_t>(random()) & 0x7FFFFFU);
        std::memcpy(out.data() + i, &bits, 4);
      }
      return Status();
    };
  SHARDKIT_TRY(write_pt(*file, Value(std::move(state)), options));
  return file->close();
}

Status write_checkpoint(const std::string& folder, const std::vector<Parameter>& parameters,
                        std::int64_t ranks, bool holes, std::string_view config) {
  std::filesystem::create_directories(folder + "/huggingface");
  SHARDKIT_TRY(write_text(folder + "/fsdp_config.json",
                          fmt::format(R"({{"FSDP_version": 2, "world_size": {}}})", ranks)));
  SHARDKIT_TRY(write_text(folder + "/huggingface/config.json", config));
  const auto mesh = fsdp_mesh(ranks);
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    SHARDKIT_TRY(write_rank(folder, parameters, mesh, rank, holes));
  return {};
}

std::vector<Parameter> qwen() {
  constexpr std::int64_t kHidden = 896, kInner = 4864, kKeys = 128, kVocabulary = 151936;
  std::vector<Parameter> all = {{"model.embed_tokens.weight", {kVocabulary, kHidden}}};
  Parameter head{"lm_head.weight", {kVocabulary, kHidden}};
  head.shares_previous = true;
  all.push_back(head);
  const std::vector<Parameter> layer = {{"self_attn.q_proj.weight", {kHidden, kHidden}},
                                        {"self_attn.q_proj.bias", {kHidden}},
                                        {"self_attn.k_proj.weight", {kKeys, kHidden}},
                                        {"self_attn.k_proj.bias", {kKeys}},
                                        {"self_attn.v_proj.weight", {kKeys, kHidden}},
                                        {"self_attn.v_proj.bias", {kKeys}},
                                        {"self_attn.o_proj.weight", {kHidden, kHidden}},
                                        {"mlp.gate_proj.weight", {kInner, kHidden}},
                                        {"mlp.up_proj.weight", {kInner, kHidden}},
                                        {"mlp.down_proj.weight", {kHidden, kInner}},
                                        {"input_layernorm.weight", {kHidden}},
                                        {"post_attention_layernorm.weight", {kHidden}}};
  for (int i = 0; i < 24; ++i)
    for (Parameter parameter : layer) {
      parameter.name = fmt::format("model.layers.{}.{}", i, parameter.name);
      all.push_back(std::move(parameter));
    }
  all.push_back({"model.norm.weight", {kHidden}});
  return all;
}

/// Rows of experts, each rank one row of each tensor.
std::vector<Parameter> experts(std::int64_t ranks, std::int64_t tensors, std::int64_t bytes) {
  const std::int64_t columns = std::max<std::int64_t>(bytes / tensors / ranks / 4, 1);
  std::vector<Parameter> all;
  for (std::int64_t i = 0; i < tensors; ++i)
    all.push_back({fmt::format("model.layers.{}.mlp.experts.{}.up_proj.weight", i / 128, i % 128),
                   {ranks, columns}});
  return all;
}

/// The layouts that cost a merge most: every piece strided, and every element summed.
std::vector<Parameter> hard() {
  return {{"transposed", {8192, 4096}, {Shard{0}}, true},
          {"columns", {8192, 4096}, {Shard{1}}},
          {"transposed_columns", {8192, 4096}, {Shard{1}}, true},
          {"partial", {4096, 2048}, {Partial{}}},
          {"partial_transposed", {4096, 2048}, {Partial{}}, true}};
}

Status make(const std::vector<std::string>& arguments) {
  const std::string kind = arguments.at(0);
  const std::string folder = arguments.at(1);
  if (kind == "qwen")
    return write_checkpoint(folder, qwen(), 8, false,
                            R"({"model_type": "qwen2", "tie_word_embeddings": true})");
  if (kind == "hard") return write_checkpoint(folder, hard(), 8, false, R"({})");
  if (kind != "sparse") return Error(ErrorCode::kInvalidArgument, "qwen, hard or sparse");
  const std::int64_t ranks = std::stoll(arguments.at(2));
  return write_checkpoint(folder,
                          experts(ranks, std::stoll(arguments.at(3)), std::stoll(arguments.at(4))),
                          ranks, true, R"({})");
}

}  // namespace
}  // namespace shardkit

int main(int argc, char** argv) {
  try {
    const shardkit::Status status = shardkit::make({argv + 1, argv + argc});
    if (status.ok()) return EXIT_SUCCESS;
    std::cerr << status.error().message() << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  return EXIT_FAILURE;
}

#include "shardkit/distributed/load_into_ranks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "shardkit/checkpoint/open.h"
#include "shardkit/distributed/whole_tensors_test_util.h"
#include "shardkit/io/file_cache.h"
#include "shardkit/io/system_calls.h"
#include "shardkit/safetensors/reader.h"
#include "shardkit/tensor/convert.h"
#include "shardkit/testing/faulty_calls.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/transfer/box_reader.h"

namespace shardkit {
namespace {

using testing::dense_bytes;
using testing::empty_dtensor;
using testing::entry;
using testing::expect_all_fail;
using testing::expect_all_ok;
using testing::make_dict;
using testing::make_sharding;
using testing::meta_tensor;
using testing::part_bytes;

/// What real PyTorch says that a checkpoint holds, in memory.
Dict expected_tensors(const std::string& folder) {
  Dict dict =
      safetensors::read_safetensors(posix_file_system(), folder + "/expected.safetensors").value();
  FileCache files(posix_file_system(), 1);
  BoxReader reader(files, 1 << 16);
  for (auto& [key, value] : dict.items) {
    const Tensor in_file = *value.get_if<Tensor>();
    Tensor whole = make_cpu_tensor(in_file.dtype, in_file.shape).value();
    reader
        .read({in_file.storage.get(), in_file.offset, in_file.strides}, item_bytes(whole.dtype),
              whole.shape, whole.storage->memory()->data, whole.strides)
        .value();
    value = whole;
  }
  return dict;
}

Catalog open_fixture(const std::string& folder, PlainTensors plain = PlainTensors::kAuto) {
  FileSystem& fs = posix_file_system();
  return open_checkpoint(fs, discover_checkpoint(fs, folder).value(), plain).value();
}

std::string fixture(const std::string& name) {
  return testing::source_path("tests/fixtures/" + name);
}

/// One of several ways to lay a tensor on all ranks, or nothing: a plain one.
std::shared_ptr<const Sharding> layout(std::size_t choice, int size, const Dims& shape) {
  const std::int64_t last = static_cast<std::int64_t>(shape.size()) - 1;
  std::vector<std::int64_t> ranks;
  for (int i = 0; i < size; ++i) ranks.push_back(i);
  const auto on = [&](Dims mesh, std::vector<Placement> placements) {
    return make_sharding(std::move(mesh), ranks, std::move(placements), shape);
  };
  if (last < 0) return choice % 2 == 0 ? nullptr : on({size}, {Replicate{}});
  switch (choice % 6) {
    case 0: return nullptr;
    case 1: return on({size}, {Shard{0}});
    case 2: return on({size}, {Shard{last}});
    case 3: return on({size}, {StridedShard{0, 2}});
    case 4:
      return size % 2 == 0 ? on({2, size / 2}, {Shard{last}, Shard{0}}) : on({size}, {Replicate{}});
    default:
      return size % 2 == 0 ? on({size / 2, 2}, {Replicate{}, Shard{last}}) : on({size}, {Shard{0}});
  }
}

class EveryCheckpoint : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Fixtures, EveryCheckpoint,
    ::testing::Values("torch-2.13.0/fsdp2_fp32_w4", "torch-2.6.0/fsdp2_fp32_w4",
                      "torch-2.13.0/fsdp2_bf16_tied_w2", "torch-2.13.0/fsdp2_shard1_w2",
                      "torch-2.13.0/hsdp_bf16_w4", "torch-2.6.0/hsdp_tp_fp32_w8",
                      "torch-2.13.0/fsdp_tp_fp32_w4", "torch-2.13.0/fsdp1_shardedtensor_fp32_w4",
                      "torch-2.4.1/fsdp1_shardedtensor_fp32_w4", "torch-2.13.0/fsdp1_tp_fp32_w4",
                      "torch-2.13.0/tp_uneven_fp32_w4", "torch-2.13.0/tp_uneven_fp32_w12",
                      "torch-2.13.0/placements_fp32_w4", "torch-2.11.0/dtypes_w2",
                      "torch-2.13.0/views_w2", "torch-2.13.0/buffers_mixed_w4",
                      "torch-2.13.0/single_w1", "torch-2.4.1/plain_fp32_w2"),
    [](const auto& instance) {
      std::string name = instance.param;
      for (char& c : name)
        if (c == '/' || c == '.' || c == '-') c = '_';
      return name;
    });

// Every tensor in several layouts, in other world sizes than it was written in.
TEST_P(EveryCheckpoint, IsLoadedIntoAnyRanks) {
  const Dict expected = expected_tensors(fixture(GetParam()));
  const bool plain = std::string_view(GetParam()).ends_with("/plain_fp32_w2");
  const Catalog catalog =
      open_fixture(fixture(GetParam()), plain ? PlainTensors::kConcat : PlainTensors::kAuto);
  ASSERT_EQ(catalog.tensors.size(), expected.items.size());
  for (const int size : {1, 2, 3, 8}) {
    for (std::size_t shift = 0; shift < 6; ++shift) {
      expect_all_ok(size, [&](ProcessGroup& group) -> Status {
        Dict local;
        for (std::size_t i = 0; i < expected.items.size(); ++i) {
          const auto& [key, value] = expected.items[i];
          const Tensor& whole = *value.get_if<Tensor>();
          const auto sharding = layout(i + shift, size, whole.shape);
          const bool meta = (i + shift) % 5 < 3;
          if (sharding) {
            local.items.emplace_back(key, empty_dtensor(whole.dtype, sharding, group.rank(), meta));
          } else {
            local.items.emplace_back(key, meta ? meta_tensor(whole.dtype, whole.shape)
                                               : make_cpu_tensor(whole.dtype, whole.shape).value());
          }
        }
        SHARDKIT_ASSIGN(const LoadIntoRanksReport report,
                        load_into_ranks(posix_file_system(), catalog, local, group));
        EXPECT_TRUE(report.unused.empty());
        for (const auto& [key, value] : local.items) {
          const std::string& name = *key.get_if<std::string>();
          const Tensor& whole = entry<Tensor>(expected, name);
          if (const auto* tensor = value.get_if<Tensor>()) {
            EXPECT_EQ(dense_bytes(*tensor), dense_bytes(whole)) << name;
          } else {
            const auto& dtensor = *value.get_if<DTensor>();
            EXPECT_EQ(dense_bytes(dtensor.local),
                      part_bytes(whole, *dtensor.sharding,
                                 *dtensor.sharding->mesh->coordinate_of(group.rank())))
                << name << " on rank " << group.rank() << " of " << size;
          }
        }
        return {};
      });
      if (HasFailure()) FAIL() << size << " ranks, shift " << shift;
    }
  }
}

/// Calls to the system that count what is read.
class CountingCalls : public SystemCalls {
 public:
  ssize_t pread(int fd, void* data, std::size_t bytes, off_t offset) override {
    read_ += bytes;
    return SystemCalls::pread(fd, data, bytes, offset);
  }
  std::uint64_t read() const { return read_; }

 private:
  std::atomic<std::uint64_t> read_ = 0;
};

// Rows into rows: not a byte more than the boxes.
TEST(LoadIntoRanks, ARankReadsItsBoxesAlone) {
  const std::string folder = fixture("torch-2.13.0/fsdp2_fp32_w4");
  const Catalog catalog = open_fixture(folder);
  for (const int size : {1, 3, 8})
    expect_all_ok(size, [&](ProcessGroup& group) -> Status {
      Dict local;
      std::uint64_t kept = 0;
      for (const CatalogTensor& tensor : catalog.tensors) {
        DTensor target = empty_dtensor(tensor.dtype, layout(1, size, tensor.shape), group.rank());
        kept += static_cast<std::uint64_t>(target.local.bytes());
        local.items.emplace_back(Value(tensor.name), std::move(target));
      }
      CountingCalls calls;
      const auto fs = make_posix_file_system(calls);
      SHARDKIT_TRY(load_into_ranks(*fs, catalog, local, group));
      EXPECT_EQ(calls.read(), kept);
      return {};
    });
}

// Columns of rows that lie close together are read along with their gaps, but never twice.
TEST(LoadIntoRanks, ScatteredRowsAreReadOnce) {
  const std::string folder = fixture("torch-2.13.0/fsdp2_fp32_w4");
  const Catalog catalog = open_fixture(folder);
  expect_all_ok(2, [&](ProcessGroup& group) -> Status {
    Dict local;
    std::uint64_t whole = 0;
    for (const CatalogTensor& tensor : catalog.tensors) {
      whole += static_cast<std::uint64_t>(tensor.bytes());
      local.items.emplace_back(
          Value(tensor.name),
          empty_dtensor(tensor.dtype, layout(2, 2, tensor.shape), group.rank(), true));
    }
    CountingCalls calls;
    const auto fs = make_posix_file_system(calls);
    SHARDKIT_TRY(load_into_ranks(*fs, catalog, local, group));
    EXPECT_LE(calls.read(), whole);
    return {};
  });
}

std::vector<float> widened(const Tensor& tensor) {
  const std::string bytes = dense_bytes(tensor);
  std::vector<float> values(static_cast<std::size_t>(tensor.numel()));
  convert(tensor.dtype, std::as_bytes(std::span(bytes)), DType::kFloat32,
          std::as_writable_bytes(std::span(values)));
  return values;
}

/// W + scale * B A in fp32, by the rule of tensor/low_rank.h, rounded to W's dtype.
Tensor folded(const Tensor& w, const Tensor& a, const Tensor& b, float scale) {
  std::vector<float> sums = widened(w);
  const std::vector<float> left = widened(b), right = widened(a);
  const auto columns = static_cast<std::size_t>(a.shape[1]);
  const auto rank = static_cast<std::size_t>(a.shape[0]);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    float sum = 0;
    for (std::size_t k = 0; k < rank; ++k) {
      const volatile float product =
          left[i / columns * rank + k] * right[k * columns + i % columns];
      sum += product;
    }
    const volatile float scaled = scale * sum;
    sums[i] += scaled;
  }
  Tensor rounded = make_cpu_tensor(w.dtype, w.shape).value();
  convert(DType::kFloat32, std::as_bytes(std::span(sums)), w.dtype,
          {rounded.storage->memory()->data, static_cast<std::size_t>(rounded.bytes())});
  return rounded;
}

// What take_lora_apart() makes of a checkpoint, with folds.
TEST(LoadIntoRanks, AdaptersAreFoldedInToWhatARankKeeps) {
  const std::string folder = fixture("torch-2.13.0/lora_bf16_w2");
  const Dict stored = expected_tensors(folder);
  Catalog catalog = open_fixture(folder);
  std::map<std::string, Tensor> expected;
  const std::string kBase = "base_layer.weight";
  for (CatalogTensor& weight : catalog.tensors) {
    if (!weight.name.ends_with(kBase)) continue;
    const std::string module = weight.name.substr(0, weight.name.size() - kBase.size());
    const std::string names[] = {module + "lora_A.default.weight",
                                 module + "lora_B.default.weight"};
    auto fold = std::make_shared<Fold>();
    for (const CatalogTensor& part : catalog.tensors)
      for (const std::size_t i : {0, 1})
        if (part.name == names[i])
          (i == 0 ? fold->a : fold->b) = std::make_shared<const CatalogTensor>(part);
    fold->scale = 16.0 / 4;
    weight.fold = fold;
    expected[weight.name] =
        folded(entry<Tensor>(stored, weight.name), entry<Tensor>(stored, names[0]),
               entry<Tensor>(stored, names[1]), 4);
  }
  ASSERT_EQ(expected.size(), 4u);
  // Shards of an adapter alone are plain tensors, whatever the base is.
  Catalog guessed = catalog;
  for (CatalogTensor& weight : guessed.tensors) {
    if (!weight.fold) continue;
    auto fold = std::make_shared<Fold>(*weight.fold);
    auto part = std::make_shared<CatalogTensor>(*fold->b);
    part->guessed = true;
    fold->b = part;
    weight.fold = fold;
  }
  const auto& [first, first_whole] = *expected.begin();
  expect_all_fail(
      2,
      [&](ProcessGroup& group) -> Status {
        Dict local = make_dict({{first, meta_tensor(first_whole.dtype, first_whole.shape)}});
        SHARDKIT_TRY(load_into_ranks(posix_file_system(), guessed, local, group));
        return {};
      },
      ErrorCode::kIncomplete, "chunks or replicas");
  for (const int size : {1, 2, 3, 8}) {
    for (std::size_t choice = 0; choice < 6; ++choice) {
      expect_all_ok(size, [&](ProcessGroup& group) -> Status {
        Dict local;
        for (const auto& [name, whole] : expected) {
          const auto sharding = layout(choice, size, whole.shape);
          local.items.emplace_back(
              name, sharding ? Value(empty_dtensor(whole.dtype, sharding, group.rank(), true))
                             : Value(meta_tensor(whole.dtype, whole.shape)));
        }
        SHARDKIT_TRY(load_into_ranks(posix_file_system(), catalog, local, group));
        for (const auto& [key, value] : local.items) {
          const Tensor& whole = expected.at(*key.get_if<std::string>());
          const auto* dtensor = value.get_if<DTensor>();
          EXPECT_EQ(dense_bytes(dtensor ? dtensor->local : *value.get_if<Tensor>()),
                    dtensor ? part_bytes(whole, *dtensor->sharding,
                                         *dtensor->sharding->mesh->coordinate_of(group.rank()))
                            : dense_bytes(whole))
              << *key.get_if<std::string>() << ", layout " << choice << " on " << size;
        }
        return {};
      });
      if (HasFailure()) return;
    }
  }
}

constexpr const char* kPlacements = "torch-2.13.0/placements_fp32_w4";

TEST(LoadIntoRanks, PartsOfACheckpoint) {
  const Catalog catalog = open_fixture(fixture(kPlacements));
  const Dict expected = expected_tensors(fixture(kPlacements));
  expect_all_ok(2, [&](ProcessGroup& group) -> Status {
    // A pipeline: each rank has tensors of its own, and what is no tensor stays.
    const bool first = group.rank() == 0;
    const std::string mine = first ? "vector" : "partial_sum";
    const auto sharding =
        make_sharding({1}, {group.rank()}, {Shard{0}}, entry<Tensor>(expected, mine).shape);
    Dict local = make_dict({{mine, empty_dtensor(DType::kFloat32, sharding, group.rank(), true)},
                            {"step", std::int64_t{4}},
                            {"replicate", None{}}});
    SHARDKIT_ASSIGN(const LoadIntoRanksReport report,
                    load_into_ranks(posix_file_system(), catalog, local, group));
    EXPECT_EQ(dense_bytes(entry<DTensor>(local, mine).local),
              dense_bytes(entry<Tensor>(expected, mine)));
    EXPECT_EQ(entry<std::int64_t>(local, "step"), 4);
    EXPECT_TRUE(find(local, "replicate")->get_if<None>());
    EXPECT_EQ(report.unused.size(), catalog.tensors.size() - 1);
    EXPECT_EQ(report.unused.front(), catalog.tensors.front().name);
    return {};
  });
}

// bfloat16 from float32, and the sum of addends rounded once.
TEST(LoadIntoRanks, FloatsAreCastWhenAsked) {
  const Catalog catalog = open_fixture(fixture(kPlacements));
  const Dict expected = expected_tensors(fixture(kPlacements));
  const auto local_state = [] {
    return make_dict({{"shard1", meta_tensor(DType::kBFloat16, {3, 7})},
                      {"partial_sum", meta_tensor(DType::kBFloat16, {3, 3})},
                      {"vector", meta_tensor(DType::kFloat64, {5})}});
  };
  expect_all_ok(1, [&](ProcessGroup& group) -> Status {
    Dict local = local_state();
    SHARDKIT_TRY(
        load_into_ranks(posix_file_system(), catalog, local, group, {.convert_floats = true}));
    for (const auto& [key, value] : local.items) {
      const Tensor& cast = *value.get_if<Tensor>();
      const std::string whole = dense_bytes(entry<Tensor>(expected, *key.get_if<std::string>()));
      std::string wanted(static_cast<std::size_t>(cast.bytes()), '\0');
      convert(DType::kFloat32, std::as_bytes(std::span(whole)), cast.dtype,
              std::as_writable_bytes(std::span(wanted)));
      EXPECT_EQ(dense_bytes(cast), wanted);
    }
    return {};
  });
  expect_all_fail(
      2,
      [&](ProcessGroup& group) -> Status {
        Dict local = local_state();
        SHARDKIT_TRY(load_into_ranks(posix_file_system(), catalog, local, group));
        return {};
      },
      ErrorCode::kInvalidArgument,
      "than the whole: tensor 'shard1', expected float32, found bfloat16");
  expect_all_fail(
      2,
      [&](ProcessGroup& group) -> Status {
        Dict local = make_dict({{"plain_zero_dim", meta_tensor(DType::kFloat32, {})}});
        SHARDKIT_TRY(
            load_into_ranks(posix_file_system(), catalog, local, group, {.convert_floats = true}));
        return {};
      },
      ErrorCode::kInvalidArgument, "expected int64, found float32");
}

TEST(LoadIntoRanks, NamesThatTheCheckpointLacks) {
  const Catalog catalog = open_fixture(fixture(kPlacements));
  expect_all_fail(
      3,
      [&](ProcessGroup& group) -> Status {
        Dict local = make_dict({{"vector", meta_tensor(DType::kFloat32, {5})}});
        if (group.rank() == 1) {
          local.items.emplace_back(Value("no.weight"), meta_tensor(DType::kFloat32, {5}));
          local.items.emplace_back(Value("no.bias"), meta_tensor(DType::kFloat32, {5}));
        }
        SHARDKIT_TRY(load_into_ranks(posix_file_system(), catalog, local, group));
        return {};
      },
      ErrorCode::kNotFound, "rank 1: the checkpoint has no tensor 'no.weight', 'no.bias'");
}

TEST(LoadIntoRanks, ACheckpointThatIsNotWhole) {
  Catalog catalog = open_fixture(fixture(kPlacements));
  for (CatalogTensor& tensor : catalog.tensors)
    if (tensor.name == "shard1") tensor.pieces.pop_back();
  expect_all_fail(
      2,
      [&](ProcessGroup& group) -> Status {
        Dict local = group.rank() == 0
                         ? make_dict({{"vector", meta_tensor(DType::kFloat32, {5})}})
                         : make_dict({{"shard1", meta_tensor(DType::kFloat32, {3, 7})}});
        SHARDKIT_TRY(load_into_ranks(posix_file_system(), catalog, local, group));
        return {};
      },
      ErrorCode::kIncomplete, "tensor 'shard1'");
}

Status load_vector(const Catalog& catalog, ProcessGroup& group) {
  Dict local = make_dict({{"vector", meta_tensor(DType::kFloat32, {5})}});
  auto report = load_into_ranks(posix_file_system(), catalog, local, group);
  if (report.ok()) return {};
  EXPECT_TRUE(entry<Tensor>(local, "vector").storage->is_meta());
  return std::move(report).error();
}

// Two tensors of one shape that the checkpoint holds apart, in one memory on rank 1.
TEST(LoadIntoRanks, TiedTensorsMustBeFilledWithTheSame) {
  const Catalog catalog = open_fixture(fixture("torch-2.13.0/fsdp2_fp32_w4"));
  const CatalogTensor* first = nullptr;
  const CatalogTensor* second = nullptr;
  for (const CatalogTensor& a : catalog.tensors)
    for (const CatalogTensor& b : catalog.tensors)
      if (&a < &b && a.shape == b.shape && a.dtype == b.dtype && !first) first = &a, second = &b;
  ASSERT_TRUE(first);
  const Dict expected = expected_tensors(fixture("torch-2.13.0/fsdp2_fp32_w4"));
  ASSERT_NE(dense_bytes(entry<Tensor>(expected, first->name)),
            dense_bytes(entry<Tensor>(expected, second->name)));
  const auto load = [&](const Catalog& from) {
    return [&](ProcessGroup& group) -> Status {
      Dict local;
      if (group.rank() == 1) {
        const Tensor tied = make_cpu_tensor(first->dtype, first->shape).value();
        local = make_dict({{first->name, tied}, {second->name, tied}});
      }
      SHARDKIT_TRY(load_into_ranks(posix_file_system(), from, local, group));
      if (group.rank() == 1) {
        EXPECT_EQ(dense_bytes(entry<Tensor>(local, first->name)),
                  dense_bytes(entry<Tensor>(expected, first->name)));
      }
      return {};
    };
  };
  expect_all_fail(2, load(catalog), ErrorCode::kInvalidArgument,
                  "rank 1: the local tensor lies in the memory of '" + first->name +
                      "', which is filled with other elements: tensor '" + second->name + "'");
  Catalog tied = catalog;
  for (CatalogTensor& tensor : tied.tensors)
    if (tensor.name == second->name) {
      tensor = *first;
      tensor.name = second->name;
    }
  expect_all_ok(2, load(tied));
}

// One host has the files of this step, another one those of an earlier step under the same names.
TEST(LoadIntoRanks, CopiesThatDifferAreRefused) {
  const Catalog catalog = open_fixture(fixture(kPlacements));
  Catalog other_step = catalog;
  other_step.files[2].directory_crc ^= 1;
  expect_all_fail(
      3,
      [&](ProcessGroup& group) {
        return load_vector(group.rank() == 1 ? other_step : catalog, group);
      },
      ErrorCode::kIncomplete,
      "ranks 0 and 1 differ in their copies of 'model_world_size_4_rank_2.pt': "
      "expected ");
  Catalog longer = catalog;
  ++longer.files[3].bytes;
  expect_all_fail(
      3,
      [&](ProcessGroup& group) { return load_vector(group.rank() == 2 ? longer : catalog, group); },
      ErrorCode::kIncomplete,
      "ranks 0 and 2 differ in their copies of 'model_world_size_4_rank_3.pt'");
}

// Of HSDP each replica is the whole: hosts that kept the files of their own ranks alone.
TEST(LoadIntoRanks, RanksMayReadDifferentReplicas) {
  const std::string folder = fixture("torch-2.13.0/hsdp_bf16_w4");
  const testing::TempDir dir;
  for (const char* rank : {"0", "1", "2", "3"}) {
    const std::string name = std::string("/model_world_size_4_rank_") + rank + ".pt";
    const std::string host = *rank < '2' ? "0" : "1";
    testing::write_file(dir / (host + name), testing::read_file(folder + name));
    testing::write_file(dir / (host + "/fsdp_config.json"),
                        testing::read_file(folder + "/fsdp_config.json"));
  }
  const Dict expected = expected_tensors(folder);
  const auto& [key, whole] = expected.items.front();
  const Tensor& tensor = *whole.get_if<Tensor>();
  expect_all_ok(2, [&, name = key](ProcessGroup& group) -> Status {
    FileSystem& fs = posix_file_system();
    SHARDKIT_ASSIGN(
        const CheckpointFolder found,
        discover_checkpoint(fs, dir / std::to_string(group.rank()), MissingRanks::kAllowed));
    SHARDKIT_ASSIGN(const Catalog catalog, open_checkpoint(fs, found));
    EXPECT_EQ(catalog.files.size(), 2u);
    Dict local;
    local.items.emplace_back(name, meta_tensor(tensor.dtype, tensor.shape));
    SHARDKIT_TRY(load_into_ranks(fs, catalog, local, group));
    EXPECT_EQ(dense_bytes(*local.items[0].second.get_if<Tensor>()), dense_bytes(tensor));
    return {};
  });
}

// Each of two ranks may hold half of the tensor or all of it, and only the user knows.
TEST(LoadIntoRanks, PlainTensorsAloneAreNotGuessed) {
  const std::string folder = fixture("torch-2.4.1/plain_fp32_w2");
  const Catalog guessed = open_fixture(folder);
  const Dict expected = expected_tensors(folder);
  const auto& [key, whole] = expected.items.front();
  const auto load = [&, name = key](const Catalog& catalog, const Dims& shape) {
    return [&catalog, name, shape](ProcessGroup& group) -> Status {
      Dict local;
      local.items.emplace_back(name, make_cpu_tensor(DType::kFloat32, shape).value());
      SHARDKIT_TRY(load_into_ranks(posix_file_system(), catalog, local, group));
      return {};
    };
  };
  const Dims shape = whole.get_if<Tensor>()->shape;
  expect_all_fail(2, load(guessed, shape), ErrorCode::kIncomplete, "chunks or replicas");
  expect_all_ok(2, load(open_fixture(folder, PlainTensors::kConcat), shape));
  Dims of_one_rank = shape;
  of_one_rank[0] /= 2;
  expect_all_ok(2, load(open_fixture(folder, PlainTensors::kReplicate), of_one_rank));
}

TEST(LoadIntoRanks, AFileThatCannotBeReadIsAnErrorOnAllRanks) {
  const Catalog catalog = open_fixture(fixture(kPlacements));
  expect_all_fail(
      3,
      [&](ProcessGroup& group) -> Status {
        testing::FaultyCalls calls(group.rank() == 2 ? testing::Fault{testing::CallKind::kRead, 1}
                                                     : testing::Fault{});
        const auto fs = make_posix_file_system(calls);
        Dict local = make_dict({{"vector", meta_tensor(DType::kFloat32, {5})}});
        auto report = load_into_ranks(*fs, catalog, local, group);
        EXPECT_TRUE(entry<Tensor>(local, "vector").storage->is_meta());
        if (!report.ok()) return std::move(report).error();
        return {};
      },
      ErrorCode::kIo, "rank 2:");
}

TEST(LoadIntoRanks, ARankThatDoesNotComeIsAnErrorInTime) {
  const Catalog catalog = open_fixture(fixture(kPlacements));
  const auto statuses =
      run_ranks(3,
                [&](ProcessGroup& group) -> Status {
                  if (group.rank() == 1) return {};
                  Dict local = make_dict({{"vector", meta_tensor(DType::kFloat32, {5})}});
                  SHARDKIT_TRY(load_into_ranks(posix_file_system(), catalog, local, group));
                  return {};
                },
                {std::chrono::seconds(20)});
  for (const std::size_t rank : {0u, 2u})
    EXPECT_THAT(statuses[rank], testing::Fails(ErrorCode::kPeer, "rank 1"));
}

}  // namespace
}  // namespace shardkit

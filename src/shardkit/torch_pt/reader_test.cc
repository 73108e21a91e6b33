// Real checkpoints of every PyTorch version, and what each form of object becomes.
#include "shardkit/torch_pt/reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "shardkit/testing/bytes_file.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/testing/tree_text.h"
#include "shardkit/zip/archive.h"

namespace shardkit {
namespace {

using testing::BytesFile;
using testing::Fails;
using testing::IsOk;
using testing::read_file;
using testing::source_path;
using testing::tree_text;

const std::vector<std::string> kVersions = {"2.4.1", "2.6.0", "2.11.0", "2.13.0"};

std::string fixture(const std::string& version, const std::string& rest) {
  return source_path("tests/fixtures/torch-" + version + "/" + rest);
}

std::string golden(const std::string& name) {
  return source_path("src/shardkit/torch_pt/testdata/golden/" + name);
}

Result<PtFile> read(const std::string& path, bool verify_crc = true) {
  return read_pt(posix_file_system(), path, {.verify_crc = verify_crc});
}

const Dict& dict_of(const Value& value) { return *value.get_if<Dict>(); }

/// The tree without what differs between files that hold the same: places in the file.
std::string placeless(const Value& value) {
  return std::regex_replace(tree_text(value), std::regex("file@[0-9]+"), "file");
}

std::string without_spaces(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

TEST(ReadPt, EveryFileOfEveryVersionIsReadOrRefusedByName) {
  int read_count = 0;
  std::map<std::string, int> refused;
  for (const std::string& version : kVersions)
    for (const auto& entry : std::filesystem::recursive_directory_iterator(fixture(version, ""))) {
      if (entry.path().extension() != ".pt") continue;
      const auto file = read(entry.path());
      if (file.ok()) {
        ++read_count;
        EXPECT_EQ(file->bytes, entry.file_size());
      } else {
        EXPECT_EQ(file.error().code(), ErrorCode::kUnsupported) << file.error().message();
        ++refused[entry.path().filename()];
      }
    }
  EXPECT_GT(read_count, 290);
  EXPECT_EQ(refused, (std::map<std::string, int>{
                         {"legacy_not_zip.pt", 4}, {"quantized.pt", 4}, {"sparse_coo.pt", 4}}));
}

/// Global shape and dtype of every tensor are what PyTorch wrote into expected.json.
TEST(ReadPt, GlobalShapesAndDtypesAreTorchs) {
  int tensors = 0;
  for (const std::string& version : kVersions)
    for (const auto& folder : std::filesystem::directory_iterator(fixture(version, ""))) {
      const std::string name = folder.path().filename();
      if (!folder.is_directory() || name.starts_with("plain")) continue;  // those concatenate
      const std::string expected = without_spaces(read_file(folder.path() / "expected.json"));
      for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        if (!entry.path().filename().string().starts_with("model_world_size_")) continue;
        const auto file = read(entry.path());
        ASSERT_THAT(file, IsOk());
        for (const auto& [key, value] : dict_of(file->root).items) {
          Dims shape;
          DType dtype{};
          if (const auto* plain = value.get_if<Tensor>()) {
            shape = plain->shape;
            dtype = plain->dtype;
          } else if (const auto* d = value.get_if<DTensor>()) {
            shape = d->sharding->shape;
            dtype = d->local.dtype;
          } else if (const auto* s = value.get_if<ShardedTensor>()) {
            shape = s->shape;
            dtype = s->dtype;
          } else {
            continue;  // _extra_state
          }
          const std::string said = "\"" + *key.get_if<std::string>() + "\":{\"dtype\":\"" +
                                   std::string(torch_name(dtype)) +
                                   "\",\"shape\":" + without_spaces(to_string(shape)) + "}";
          EXPECT_NE(expected.find(said), std::string::npos) << entry.path() << " " << said;
          ++tensors;
        }
      }
    }
  EXPECT_GT(tensors, 4500);
}

/// The same program ran under each version, so that what it saved must read the same.
TEST(ReadPt, VersionsAgree) {
  const std::vector<std::string> kSame = {"buffers_mixed_w4",
                                          "critic_fp32_w4",
                                          "dtypes_w2",
                                          "fsdp1_dtensor_fp32_w2",
                                          "fsdp1_tp_fp32_w4",
                                          "fsdp2_bf16_tied_w2",
                                          "fsdp2_fp32_w4",
                                          "fsdp_tp_fp32_w4",
                                          "hsdp_bf16_w4",
                                          "hsdp_tp_fp32_w8",
                                          "lora_bf16_w2",
                                          "plain_fp32_w2",
                                          "single_w1",
                                          "fsdp2_shard1_w2",
                                          "tp_uneven_fp32_w4",
                                          "tp_uneven_fp32_w12",
                                          "fsdp1_shardedtensor_fp32_w4"};
  for (const std::string& name : kSame) {
    std::map<std::string, std::string> first;  // by file name
    int versions = 0;
    for (const std::string& version : kVersions) {
      const std::filesystem::path folder = fixture(version, name);
      if (!std::filesystem::exists(folder)) continue;
      ++versions;
      for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".pt") continue;
        const auto file = read(entry.path());
        ASSERT_THAT(file, IsOk());
        const std::string text = placeless(file->root);
        const auto known = first.emplace(entry.path().filename(), text).first;
        EXPECT_EQ(text, known->second) << entry.path();
      }
    }
    EXPECT_GE(versions, 2) << name;
  }
}

/// The submesh of rank 5 in a mesh of 2 x 2 x 2 (generate.py, case_hsdp_tp_fp32_w8): ranks of its
/// own tensor-parallel coordinate.
TEST(ReadPt, TheMeshBelongsToTheTensor) {
  for (const std::string version : {"2.6.0", "2.11.0", "2.13.0"}) {
    const auto file = read(fixture(version, "hsdp_tp_fp32_w8/model_world_size_8_rank_5.pt"));
    ASSERT_THAT(file, IsOk());
    const Dict& state = dict_of(file->root);
    const auto sharding = [&state](std::string_view name) {
      return testing::sharding_text(*find(state, name)->get_if<DTensor>()->sharding);
    };
    EXPECT_EQ(sharding("model.embed_tokens.weight"),
              "[99, 24] on cpu [2, 2] 1 3 5 7 ddp fsdp: R S(0)");
    EXPECT_EQ(sharding("model.layers.0.self_attn.q_proj.weight"),
              "[24, 24] on cpu [2, 2, 2] 0 1 2 3 4 5 6 7 ddp fsdp tp: R _S(0, 2) S(0)");
    EXPECT_EQ(sharding("model.layers.0.self_attn.o_proj.weight"),
              "[24, 24] on cpu [2, 2, 2] 0 1 2 3 4 5 6 7 ddp fsdp tp: R S(0) S(1)");
  }
}

/// Sliced, flattened, permuted and degenerate meshes: what DeviceMesh.mesh says (generate.py).
TEST(ReadPt, MeshesAreTorchs) {
  const auto file = read(golden("meshes.pt"));
  ASSERT_THAT(file, IsOk());
  std::istringstream expected(read_file(golden("expected.txt")));
  int compared = 0;
  for (std::string line; std::getline(expected, line);) {
    std::istringstream words(line);
    std::string source, name, text;
    words >> source >> name >> std::ws;
    if (source != "meshes.pt") continue;
    std::getline(words, text);
    const Value* value = find(dict_of(file->root), name);
    ASSERT_NE(value, nullptr) << name;
    EXPECT_EQ(testing::mesh_text(*value->get_if<DTensor>()->sharding->mesh), text) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 15);
}

TEST(ReadPt, Placements) {
  const auto file = read(golden("placements.pt"));
  ASSERT_THAT(file, IsOk());
  const auto sharding = [&file](std::string_view name) {
    const std::string text =
        testing::sharding_text(*find(dict_of(file->root), name)->get_if<DTensor>()->sharding);
    return text.substr(text.find(": ") + 2);
  };
  EXPECT_EQ(sharding("sum"), "P(sum) R R");
  EXPECT_EQ(sharding("avg"), "P(avg) R R");
  EXPECT_EQ(sharding("min"), "P(min) R R");
  EXPECT_EQ(sharding("max"), "P(max) R R");
  EXPECT_EQ(sharding("product"), "P(product) R R");
  EXPECT_EQ(sharding("ordered"), "S(0) R S(0) order 0:2,0");
  EXPECT_EQ(sharding("strided"), "_S(0, 4) R S(0)");
  EXPECT_THAT(read(golden("mask_partial.pt")), Fails(ErrorCode::kUnsupported,
                                                     "tensor 'mask', found "
                                                     "torch.distributed.tensor.placement_types."
                                                     "_MaskPartial"));
}

TEST(ReadPt, ShardedTensors) {
  const auto fsdp =
      read(fixture("2.13.0", "fsdp1_shardedtensor_fp32_w4/model_world_size_4_rank_1.pt"));
  ASSERT_THAT(fsdp, IsOk());
  EXPECT_EQ(placeless(*find(dict_of(fsdp->root), "model.embed_tokens.weight")),
            "ShardedTensor(float32[99, 24]; local [25, 0]+[25, 24]@rank1 "
            "float32[25, 24]/[24, 1]+0 of file+2400; [0, 0]+[25, 24]@rank0; "
            "[25, 0]+[25, 24]@rank1; [50, 0]+[25, 24]@rank2; [75, 0]+[24, 24]@rank3)");
  const auto chunked = read(golden("sharded.pt"));
  ASSERT_THAT(chunked, IsOk());
  EXPECT_EQ(placeless(chunked->root),
            "{'chunked': ShardedTensor(float32[5, 2]; local [4, 0]+[1, 2]@rank17 "
            "float32[1, 2]/[2, 1]+0 of file+8; [0, 0]+[2, 2]@rank15; [2, 0]+[2, 2]@rank16; "
            "[4, 0]+[1, 2]@rank17; [6, 0]+[0, 2]@rank18)}")
      << "the empty shard lies beyond the end";
  // Rows 68-71 by tensor parallelism, of which FSDP's second rank holds the last two.
  const auto nested = read(golden("sharded_nested.pt"));
  ASSERT_THAT(nested, IsOk());
  EXPECT_EQ(placeless(nested->root),
            "{'nested': ShardedTensor(float32[96, 3]; local [70, 0]+[2, 3]@rank1 "
            "float32[2, 3]/[3, 1]+0 of file+24)}");
}

TEST(ReadPt, TiedTensorsShareAStorage) {
  for (const std::string& version : kVersions) {
    const auto file = read(fixture(version, "fsdp2_bf16_tied_w2/model_world_size_2_rank_1.pt"));
    ASSERT_THAT(file, IsOk());
    const auto storage = [&file](std::string_view name) {
      return find(dict_of(file->root), name)->get_if<DTensor>()->local.storage;
    };
    EXPECT_EQ(storage("lm_head.weight"), storage("model.embed_tokens.weight"));
    EXPECT_NE(storage("lm_head.weight"), storage("model.norm.weight"));
  }
}

TEST(ReadPt, EqualShardingsMeshesAndPathsAreShared) {
  const auto file = read(fixture("2.13.0", "fsdp2_fp32_w4/model_world_size_4_rank_2.pt"));
  ASSERT_THAT(file, IsOk());
  std::set<const DeviceMesh*> meshes;
  std::set<const std::string*> paths;
  for (const auto& [key, value] : dict_of(file->root).items) {
    const auto* tensor = value.get_if<DTensor>();
    meshes.insert(tensor->sharding->mesh.get());
    paths.insert(tensor->local.storage->file()->path.get());
  }
  EXPECT_EQ(meshes.size(), 1u);
  EXPECT_EQ(paths.size(), 1u);
  const auto sharding = [&file](std::string_view name) {
    return find(dict_of(file->root), name)->get_if<DTensor>()->sharding.get();
  };
  EXPECT_EQ(sharding("model.layers.0.mlp.up_proj.weight"),
            sharding("model.layers.1.mlp.gate_proj.weight"));
  EXPECT_NE(sharding("model.layers.0.mlp.up_proj.weight"), sharding("model.norm.weight"));
}

/// Numbers of generate.py, case_views_w2: big = arange(100) + 1000 * rank.
TEST(ReadPt, ViewsAreReadAsTheyWereSaved) {
  const std::string path = fixture("2.4.1", "views_w2/model_world_size_2_rank_1.pt");
  const auto file = read(path);
  ASSERT_THAT(file, IsOk());
  const std::string bytes = read_file(path);
  const auto numbers = [&](std::string_view name) {
    const Tensor& view = find(dict_of(file->root), name)->get_if<DTensor>()->local;
    std::vector<float> read;
    for (std::int64_t i = 0; i < view.shape[0]; ++i)
      for (std::int64_t j = 0; j < view.shape[1]; ++j) {
        const std::int64_t at = view.offset + i * view.strides[0] + j * view.strides[1];
        float number = 0;
        std::copy_n(bytes.data() + view.storage->file()->offset + 4 * static_cast<std::size_t>(at),
                    4, reinterpret_cast<char*>(&number));
        read.push_back(number);
      }
    return read;
  };
  EXPECT_EQ(numbers("offset"), (std::vector<float>{1010, 1011, 1012, 1013, 1014, 1015, 1016, 1017,
                                                   1018, 1019, 1020, 1021}));
  EXPECT_EQ(numbers("transposed"), (std::vector<float>{1024, 1028, 1032, 1025, 1029, 1033, 1026,
                                                       1030, 1034, 1027, 1031, 1035}));
  EXPECT_EQ(numbers("every_other_row"), (std::vector<float>{1040, 1041, 1042, 1046, 1047, 1048,
                                                            1052, 1053, 1054, 1058, 1059, 1060}));
  EXPECT_EQ(numbers("same_storage_a"), numbers("same_storage_b"));
}

TEST(ReadPt, EveryFormOfTorchSave) {
  const std::string kThree =
      "{'w': float32[4, 3]/[3, 1]+0 of file+48, 'half': float16[6]/[1]+0 of file+12, "
      "'n': int64[]/[]+0 of file+8}";
  for (const std::string& version : kVersions) {
    const auto form = [&version](const std::string& name) {
      const auto file = read(fixture(version, "formats_w1/formats/" + name + ".pt"));
      return file.ok() ? placeless(file->root) : file.error().message();
    };
    for (const char* name : {"protocol2", "protocol3", "protocol4", "protocol5", "parameters",
                             "ordered_dict_metadata", "cuda_location"})
      EXPECT_EQ(form(name), kThree) << name << " of " << version;
    EXPECT_EQ(form("nested"),
              "{'outer': {'inner': [float32[4, 3]/[3, 1]+0 of file+48, (float16[6]/[1]+0 of "
              "file+12, None, True, 1.5, 'text', b:6279746573, int:000000000000000040)]}, "
              "7: int64[]/[]+0 of file+8}");
    EXPECT_EQ(form("meta_tensor"), "{'w': float32[4, 3]/[3, 1]+0 of meta+48}");
    const std::string extra = form("extra_state");
    EXPECT_TRUE(
        extra.starts_with("{'rng': {'numpy': ('MT19937', numpy.core.multiarray."
                          "_reconstruct<numpy.ndarray<>, (0), b:62, (1, (624), "
                          "numpy.dtype<'u4', False, True, "))
        << extra.substr(0, 200);
    EXPECT_TRUE(extra.ends_with("'lr': {'a': [1]}, 'set': set(1, 2)}"));
  }
}

TEST(ReadPt, HarmlessClassesAreKeptByName) {
  for (const char* name : {"objects.pt", "objects_protocol5.pt"}) {
    const auto file = read(golden(name));
    ASSERT_THAT(file, IsOk());
    const auto object = [&file](std::string_view key) {
      return placeless(*find(dict_of(file->root), key));
    };
    EXPECT_EQ(object("device"), "torch.device<'cuda', 1>");
    EXPECT_EQ(object("dtype"), "torch.float32<>");
    EXPECT_EQ(object("size"), "(2, 3)");
    EXPECT_EQ(object("generator"),
              "torch._C.Generator<torch.device<'cpu'>, (5, None, uint8[5056]/[1]+0 of file+5056)>");
    EXPECT_EQ(object("bytes_io"), "_io.BytesIO<(b:616263, 0, None)>");
    EXPECT_EQ(object("complex"), "builtins.complex<1, 2>");
    EXPECT_EQ(object("counter"), "{'a': 2, 'b': 1}");
    EXPECT_EQ(object("deque"), "collections.deque<(), 3, [1, 2]>");
    EXPECT_EQ(object("frozen"), "set(1)");
    EXPECT_EQ(object("bytearray"), "b:6162");
    EXPECT_EQ(object("empty_bytes"), "b:");
    EXPECT_EQ(object("ordered"), "{'a': 1}");
    EXPECT_EQ(object("path"), "pathlib.PurePosixPath<'/', 'a', 'b'>");
    EXPECT_EQ(object("typed_storage"), "torch.FloatStorage<float32[3]/[1]+0 of file+12>");
    EXPECT_EQ(object("parameter"), "float32[2]/[1]+0 of file+8");
    EXPECT_EQ(object("parameter_with_state"), "float32[2]/[1]+0 of file+8");
    EXPECT_EQ(object("buffer"), "float32[2]/[1]+0 of file+8");
    EXPECT_EQ(object("float8"), "float8_e4m3fn[2]/[1]+0 of file+2");
    EXPECT_EQ(object("uint16"), "uint16[2]/[1]+0 of file+4");
    EXPECT_EQ(object("empty"), "float32[0, 3]/[3, 1]+0 of file+0");
    EXPECT_EQ(object("expanded"), "float32[4]/[0]+0 of file+4");
  }
  const auto enums = read(golden("red_op_type.pt"));
  ASSERT_THAT(enums, IsOk());
  EXPECT_EQ(placeless(enums->root),
            "{'red_op_type': [torch.distributed.distributed_c10d.ReduceOp.RedOpType<0>, "
            "torch.distributed.distributed_c10d.ReduceOp.RedOpType<4>]}");
}

TEST(ReadPt, OtherKindsOfTensorsAreRefusedByName) {
  const auto refused = [](const char* name, const char* text) {
    EXPECT_THAT(read(golden(name)), Fails(ErrorCode::kUnsupported, text));
  };
  refused("conj.pt", "tensor 'c', found metadata 'conj'");
  refused("sparse_csr.pt", "found torch._utils._rebuild_sparse_tensor");
  refused("nested_tensor.pt", "found torch._utils._rebuild_nested_tensor");
  refused("jagged.pt", "found torch.nested._internal.nested_tensor.NestedTensor");
  refused("torchscript.pt", "a TorchScript program");
  EXPECT_THAT(read(fixture("2.13.0", "formats_w1/formats/legacy_not_zip.pt")),
              Fails(ErrorCode::kUnsupported, "a .pt of the legacy form"));
}

TEST(ReadPt, FilesWithoutCrcs) {
  const auto file = read(golden("no_crc.pt"));
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(placeless(file->root), "{'a': float32[3]/[1]+0 of file+12}");
}

TEST(ReadPt, NoSuchFile) {
  EXPECT_THAT(read("/no/such/file.pt"), Fails(ErrorCode::kNotFound, "/no/such/file.pt"));
}

const std::vector<std::string> kSmallFiles = {
    "tests/fixtures/torch-2.4.1/plain_fp32_w2/model_world_size_2_rank_0.pt",
    "tests/fixtures/torch-2.6.0/plain_fp32_w2/model_world_size_2_rank_0.pt",
    "tests/fixtures/torch-2.11.0/plain_fp32_w2/model_world_size_2_rank_0.pt",
    "tests/fixtures/torch-2.13.0/plain_fp32_w2/model_world_size_2_rank_0.pt",
    "tests/fixtures/torch-2.13.0/views_w2/model_world_size_2_rank_1.pt",
    "src/shardkit/torch_pt/testdata/golden/sharded.pt"};

/// Every byte outside tensor data, flipped in three ways: an error, or the identical tree. Which
/// bytes are tensor data comes from the directory of the whole file.
TEST(ReadPt, FlippedBytesAreFoundOrHarmless) {
  for (const std::string& path : kSmallFiles) {
    std::string bytes = read_file(source_path(path));
    const BytesFile whole(bytes);
    const auto archive = zip::Archive::open(whole);
    ASSERT_THAT(archive, IsOk());
    std::vector<bool> is_data(bytes.size(), false);
    for (const zip::Entry& entry : archive->entries())
      if (entry.name.find("/data/") != std::string_view::npos)
        std::fill_n(is_data.begin() + static_cast<std::ptrdiff_t>(entry.offset), entry.bytes, true);
    const auto unflipped = read_pt(whole);
    ASSERT_THAT(unflipped, IsOk());
    const std::string text = tree_text(unflipped->root);
    int found = 0;
    int harmless = 0;
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      if (is_data[at]) continue;
      for (const int mask : {0x01, 0x80, 0xff}) {
        const char byte = bytes[at];
        bytes[at] = static_cast<char>(byte ^ mask);
        const auto file = read_pt(BytesFile(bytes));
        bytes[at] = byte;
        ++(file.ok() ? harmless : found);
        EXPECT_EQ(file.ok() ? tree_text(file->root) : text, text) << path << " byte " << at;
      }
    }
    EXPECT_GT(found, harmless) << "padding and unused fields are the smaller part";
  }
}

TEST(ReadPt, FlippedTensorDataIsFoundOnRequest) {
  std::string bytes = read_file(source_path(kSmallFiles[3]));
  const auto file = read_pt(BytesFile(bytes));
  ASSERT_THAT(file, IsOk());
  const Tensor& tensor = *find(dict_of(file->root), "a.weight")->get_if<Tensor>();
  bytes[tensor.storage->file()->offset + 5] ^= 1;
  EXPECT_THAT(read_pt(BytesFile(bytes)), IsOk());
  EXPECT_THAT(read_pt(BytesFile(bytes), {.verify_crc = true}),
              Fails(ErrorCode::kCorrupt, "the CRC of 'model_world_size_2_rank_0/data/0'"));
}

TEST(ReadPt, TruncatedFilesAreCorrupt) {
  const std::string bytes = read_file(source_path(kSmallFiles[3]));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THAT(read_pt(BytesFile(bytes.substr(0, size))), Fails(ErrorCode::kCorrupt, "bytes"));
}

TEST(ReadPt, TheDirectoryCrcTellsContentsApart) {
  const auto crc = [](const std::string& rank) {
    return read(fixture("2.13.0", "plain_fp32_w2/model_world_size_2_rank_" + rank + ".pt"))
        ->directory_crc;
  };
  EXPECT_EQ(crc("0"), crc("0"));
  EXPECT_NE(crc("0"), crc("1"));
  // Without CRCs of the records it would be that of any file with tensors of these sizes.
  EXPECT_EQ(read(golden("no_crc.pt"))->directory_crc, 0u);
}

}  // namespace
}  // namespace shardkit

// Tests of list_sidecars: what is copied, what is weights, and links that lead elsewhere.
#include "shardkit/hf/model_folder.h"

#include <sys/stat.h>

#include <filesystem>

#include "shardkit/testing/forwarding_file_system.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit::hf {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using testing::IsOk;
using testing::TempDir;
using testing::write_file;

std::vector<std::string> paths_in(const std::string& folder) {
  const auto files = list_sidecars(posix_file_system(), folder);
  EXPECT_THAT(files, IsOk());
  std::vector<std::string> paths;
  if (files.ok())
    for (const SidecarFile& file : *files) paths.push_back(file.path);
  return paths;
}

TEST(WeightFile, IsKnownByItsName) {
  for (const char* name : {"model.safetensors",
                           "model-00001-of-00002.safetensors",
                           "model.safetensors.index.json",
                           "model.fp16.safetensors",
                           "model.safetensors.index.fp16.json",
                           "adapter_model.safetensors",
                           "anything.safetensors",
                           "pytorch_model.bin",
                           "pytorch_model-00001-of-00002.bin",
                           "pytorch_model.fp16.bin",
                           "pytorch_model.fp16-00001-of-00002.bin",
                           "pytorch_model.bin.index.json",
                           "adapter_model.bin",
                           "model.bin",
                           "tf_model.h5",
                           "tf_model-00001-of-00002.h5",
                           "tf_model.h5.index.json",
                           "flax_model.msgpack",
                           "flax_model.msgpack.index.json",
                           "consolidated.00.pth",
                           "consolidated.pth",
                           "qwen2-q4_k_m.gguf",
                           "model.onnx",
                           "model_quantized.onnx",
                           "decoder_model_merged.onnx",
                           "model.onnx_data",
                           "openvino_model.bin",
                           "openvino_model.xml",
                           "rust_model.ot",
                           "model.ckpt.index",
                           "model.ckpt-1000.data-00000-of-00001",
                           "__0_0.distcp",
                           "model_world_size_8_rank_0.pt",
                           "optim_world_size_8_rank_7.pt",
                           "extra_state_world_size_8_rank_7.pt"})
    EXPECT_TRUE(is_weight_file(name)) << name;
  for (const char* name : {"config.json",
                           "generation_config.json",
                           "tokenizer.json",
                           "tokenizer.model",
                           "vocab.json",
                           "vocab.bin",
                           "training_args.bin",
                           "spm.bin",
                           "merges.txt",
                           "chat_template.jinja",
                           "preprocessor_config.json",
                           "modeling_x.py",
                           "README.md",
                           "model.py",
                           "model.json",
                           "index.json",
                           "campplus.onnx",
                           "openvino_tokenizer.bin",
                           "my_pytorch_model.bin.txt",
                           "adapter_config.json",
                           "safetensors",
                           "model.safetensors.md",
                           "scheduler.pt",
                           "data.pt",
                           "pytorch_model.a.b.bin",
                           "pytorch_model-1-of-2.bin",
                           "x.index.json",
                           "a.index.b.c.json",
                           ".gitattributes",
                           ""})
    EXPECT_FALSE(is_weight_file(name)) << name;
  EXPECT_FALSE(is_weight_file(std::string(1'000'000, 'a')));
}

TEST(ListSidecars, LeavesWeightsAndToolsOut) {
  const TempDir dir;
  for (const char* name :
       {"config.json", "tokenizer.json", "vocab.bin", "code/modeling_x.py", "code/deep/er/y.py",
        "model.safetensors", "model.safetensors.index.json", "old/pytorch_model.bin",
        ".gitattributes", ".git/config", "code/__pycache__/x.pyc", ".cache/huggingface/x.lock"})
    write_file(dir / name, name);
  std::filesystem::create_directories(dir / "empty");
  EXPECT_THAT(paths_in(dir.path()),
              ElementsAre(".gitattributes", "code/deep/er/y.py", "code/modeling_x.py",
                          "config.json", "tokenizer.json", "vocab.bin"));
  EXPECT_THAT(paths_in(dir.path() + "/").size(), 6u);
  const auto files = list_sidecars(posix_file_system(), dir.path());
  ASSERT_THAT(files, IsOk());
  EXPECT_EQ(files->at(3).bytes, 11u);
}

TEST(ListSidecars, FollowsLinksWithinTheFolder) {
  const TempDir dir;
  write_file(dir / "model/a/vocab.json", "{}");
  std::filesystem::create_symlink("a/vocab.json", dir / "model/vocab.json");
  std::filesystem::create_symlink(dir / "model", dir / "link");
  EXPECT_THAT(paths_in(dir / "model"), ElementsAre("a/vocab.json", "vocab.json"));
  EXPECT_THAT(paths_in(dir / "link"), ElementsAre("a/vocab.json", "vocab.json"));
}

TEST(ListSidecars, FollowsTheLinksOfTheHuggingFaceCache) {
  const TempDir dir;
  const std::string snapshot = dir / "models--a--b/snapshots/0123abc";
  write_file(dir / "models--a--b/blobs/f00d", "{\"x\": 1}");
  write_file(dir / "models--a--b/blobs/cafe", "weights");
  std::filesystem::create_directories(snapshot + "/code");
  std::filesystem::create_symlink("../../blobs/f00d", snapshot + "/config.json");
  std::filesystem::create_symlink("../../../blobs/f00d", snapshot + "/code/x.py");
  std::filesystem::create_symlink("../../blobs/cafe", snapshot + "/model.safetensors");
  EXPECT_THAT(paths_in(snapshot), ElementsAre("code/x.py", "config.json"));
  const auto files = list_sidecars(posix_file_system(), snapshot);
  ASSERT_THAT(files, IsOk());
  EXPECT_EQ(files->at(1).bytes, 8u);

  // A blob that is itself a link leads out of the cache.
  write_file(dir / "secret", "s");
  std::filesystem::create_symlink(dir / "secret", dir / "models--a--b/blobs/bad");
  std::filesystem::create_symlink("../../blobs/bad", snapshot + "/vocab.json");
  EXPECT_THAT(list_sidecars(posix_file_system(), snapshot),
              AllOf(Fails(ErrorCode::kUnsafe, "vocab.json"), Fails(ErrorCode::kUnsafe, "secret")));
}

TEST(ListSidecars, RefusesLinksThatLeadElsewhere) {
  FileSystem& fs = posix_file_system();
  const TempDir dir;
  write_file(dir / "model/config.json", "{}");
  write_file(dir / "secret", "s");
  write_file(dir / "blobs/f00d", "s");
  write_file(dir / "modelx/y", "s");
  for (const char* target :
       {"/etc/passwd", "../secret", "../blobs/f00d", "../modelx/y", "./../model/../secret"}) {
    const std::string link = dir / "model/vocab.json";
    std::filesystem::create_symlink(target, link);
    EXPECT_THAT(list_sidecars(fs, dir / "model"),
                AllOf(Fails(ErrorCode::kUnsafe, "a link out of the model's folder"),
                      Fails(ErrorCode::kUnsafe, "file '" + link + "'")))
        << target;
    std::filesystem::remove(link);
  }
  for (const char* target : {"..", ".", "/etc", "../modelx"}) {
    std::filesystem::create_directory_symlink(target, dir / "model/sub");
    EXPECT_THAT(list_sidecars(fs, dir / "model"), Fails(ErrorCode::kUnsafe, "links to folders"))
        << target;
    std::filesystem::remove(dir / "model/sub");
  }
  for (const char* target : {"nothing", "loop"}) {
    std::filesystem::create_symlink(target, dir / "model/loop");
    EXPECT_THAT(list_sidecars(fs, dir / "model"), Fails(ErrorCode::kUnsupported, "dangling link"))
        << target;
    std::filesystem::remove(dir / "model/loop");
  }
  EXPECT_THAT(paths_in(dir / "model"), ElementsAre("config.json"));
}

TEST(ListSidecars, RefusesWhatIsNoFile) {
  FileSystem& fs = posix_file_system();
  const TempDir dir;
  EXPECT_THAT(list_sidecars(fs, dir / "none"), Fails(ErrorCode::kNotFound, "none"));
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(list_sidecars(fs, dir.path()), Fails(ErrorCode::kUnsupported, "pipe"));
}

TEST(ListSidecars, HoldsItsDepthLimit) {
  const TempDir dir;
  std::string folder;
  for (int i = 0; i < 16; ++i) folder += "d/";
  write_file(dir / (folder + "x"), "");
  EXPECT_EQ(paths_in(dir.path()).size(), 1u);
  write_file(dir / (folder + "d/x"), "");
  EXPECT_THAT(list_sidecars(posix_file_system(), dir.path()),
              Fails(ErrorCode::kLimit, "folders nest deeper than 16"));
}

TEST(ListSidecars, HoldsItsLimitOfFiles) {
  struct ManyFiles : testing::ForwardingFileSystem {
    using ForwardingFileSystem::ForwardingFileSystem;
    std::size_t count = 100'000;
    Result<std::vector<DirectoryEntry>> list(const std::string&) override {
      return std::vector<DirectoryEntry>(count, {"part.gguf", {FileKind::kRegular}});
    }
  } fs(posix_file_system());
  const TempDir dir;
  EXPECT_THAT(list_sidecars(fs, dir.path()), IsOk());
  fs.count += 1;
  EXPECT_THAT(list_sidecars(fs, dir.path()),
              Fails(ErrorCode::kLimit, "more than 100000 files in a model's folder: file '"));
}

}  // namespace
}  // namespace shardkit::hf

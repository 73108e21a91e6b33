// upload_folder() against a Hub of a few lines; tests/cli/upload_test.py has one that is complete.
#include "shardkit/hub/upload_folder.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "shardkit/hub/digest.h"
#include "shardkit/hub/folder_files.h"
#include "shardkit/hub/scripted_server_test_util.h"
#include "shardkit/hub/upload_journal.h"
#include "shardkit/json/parse.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit::hub {
namespace {

using ::shardkit::testing::Fails;
using ::shardkit::testing::IsOk;
using ::shardkit::testing::TempDir;
using ::shardkit::testing::write_file;

std::string sha256(const std::string& text) {
  Digest digest = Digest::make(Digest::Kind::kSha256).value();
  digest.add(std::as_bytes(std::span(text)));
  return digest.finish().value();
}

/// Keeps objects and the last commit. Files that end with ".bin" are LFS.
class SmallHub {
 public:
  SmallHub() : server_([this](const auto& request) { return serve(request); }) {}

  std::string url() const { return server_.url(); }
  std::vector<ScriptedServer::Request> requests() const { return server_.requests(); }

  std::map<std::string, std::string> objects;  // by SHA-256
  std::string commit;                          // its lines

 private:
  std::string serve(const ScriptedServer::Request& request) {
    const auto has = [&](const char* text) { return request.line.find(text) != std::string::npos; };
    if (has("PUT /object/")) {
      objects[sha256(request.body)] = request.body;
      return ScriptedServer::answer("200 OK", "");
    }
    if (has("/preupload/")) return ScriptedServer::answer("200 OK", preupload(request.body));
    if (has("/batch")) return ScriptedServer::answer("200 OK", batch(request.body));
    if (has("/commit/")) {
      commit = request.body;
      return ScriptedServer::answer("200 OK",
                                    R"({"commitOid": "c0ffee", "commitUrl": "http://h/c"})");
    }
    return ScriptedServer::answer("200 OK", R"({"url": "", "private": true, "sha": "c0ffee"})");
  }

  std::string preupload(const std::string& body) const {
    std::string files;
    const json::Value asked = json::parse(body).value();
    for (const json::Value& file : asked.find("files")->get_if<json::Array>()->items) {
      const std::string path = *file.find("path")->get_if<std::string>();
      files += (files.empty() ? "" : ",") + std::string(R"({"path": ")") + path +
               R"(", "uploadMode": ")" + (path.ends_with(".bin") ? "lfs" : "regular") + "\"}";
    }
    return "{\"files\": [" + files + "]}";
  }

  std::string batch(const std::string& body) const {
    std::string objects_text;
    const json::Value asked = json::parse(body).value();
    for (const json::Value& object : asked.find("objects")->get_if<json::Array>()->items) {
      const std::string oid = *object.find("oid")->get_if<std::string>();
      objects_text += (objects_text.empty() ? "" : ",") + std::string(R"({"oid": ")") + oid + "\"";
      if (!objects.contains(oid))
        objects_text += R"(, "actions": {"upload": {"href": ")" + url() + "/object/" + oid + "\"}}";
      objects_text += "}";
    }
    return "{\"objects\": [" + objects_text + "]}";
  }

  ScriptedServer server_;
};

class UploadFolder : public ::testing::Test {
 protected:
  UploadFolder() {
    options_.repo = "org/model";
    options_.retry.first_wait = 0.001;
    options_.retry.tries = 3;
  }

  Result<UploadReport> upload() {
    return upload_folder(posix_file_system(), dir_ / "model", options_,
                         [this](const std::string& name) -> std::optional<std::string> {
                           if (name == "HF_ENDPOINT") return hub_.url();
                           if (name == "HF_TOKEN") return "hf_secret";
                           if (name == "XDG_CACHE_HOME") return dir_ / "cache";
                           return std::nullopt;
                         });
  }

  TempDir dir_;
  SmallHub hub_;
  UploadOptions options_;
};

TEST_F(UploadFolder, SendsObjectsAndCommitsTheRest) {
  const std::string weights(100'000, 'w');
  write_file(dir_ / "model/a.bin", weights);
  write_file(dir_ / "model/b.bin", "b");
  write_file(dir_ / "model/config.json", "{}");
  UploadProgress last;
  options_.on_progress = [&](const UploadProgress& now) { last = now; };
  options_.is_private = true;
  const UploadReport report = upload().value();
  EXPECT_EQ(report.page, hub_.url() + "/org/model");
  EXPECT_EQ(report.files_sent, 3u);
  EXPECT_EQ(report.bytes_sent, weights.size() + 3);
  ASSERT_EQ(report.commits.size(), 1u);
  EXPECT_EQ(report.commits[0].oid, "c0ffee");
  EXPECT_EQ(hub_.objects.size(), 2u);
  EXPECT_EQ(hub_.objects[sha256(weights)], weights);
  EXPECT_NE(hub_.commit.find(R"({"key":"lfsFile","value":{"path":"a.bin","algo":"sha256","oid":")" +
                             sha256(weights) + R"(","size":100000}})"),
            std::string::npos)
      << hub_.commit;
  EXPECT_NE(hub_.commit.find(R"("content":"e30=","path":"config.json")"), std::string::npos);
  EXPECT_EQ(last.files_done, 3u);
  EXPECT_EQ(last.files_total, 3u);
  EXPECT_EQ(last.bytes_done, weights.size() + 3);
  EXPECT_EQ(last.bytes_total, last.bytes_done);
}

TEST_F(UploadFolder, RefusesOptionsBeforeAnythingIsSent) {
  write_file(dir_ / "model/config.json", "{}");
  options_.repo = "model";
  EXPECT_THAT(upload(), Fails(ErrorCode::kInvalidArgument, "ORG/NAME"));
  options_.repo = "org/model";
  options_.branch = "two words";
  EXPECT_THAT(upload(), Fails(ErrorCode::kInvalidArgument, "branch"));
  options_.branch = "main";
  options_.connections = 0;
  EXPECT_THAT(upload(), Fails(ErrorCode::kInvalidArgument, "connections"));
  EXPECT_EQ(hub_.requests().size(), 0u);
}

TEST_F(UploadFolder, StopsWhenItIsTold) {
  write_file(dir_ / "model/config.json", "{}");
  const std::atomic<bool> cancel = true;
  options_.cancel = &cancel;
  EXPECT_THAT(upload(), Fails(ErrorCode::kCancelled, "stopped"));
}

TEST_F(UploadFolder, ChecksWithoutTheNetwork) {
  const auto with_token = [](const std::string& name) -> std::optional<std::string> {
    if (name == "HF_TOKEN") return "hf_secret";
    return std::nullopt;
  };
  const auto nothing = [](const std::string&) -> std::optional<std::string> {
    return std::nullopt;
  };
  EXPECT_THAT(check_upload(posix_file_system(), options_, with_token), IsOk());
  EXPECT_THAT(check_upload(posix_file_system(), options_, nothing),
              Fails(ErrorCode::kInvalidArgument, "no token"));
  options_.repo = "x";
  EXPECT_THAT(check_upload(posix_file_system(), options_, with_token),
              Fails(ErrorCode::kInvalidArgument, "ORG/NAME"));
}

TEST(UploadJournal, GivesBackWhatItWasToldUpToALineThatIsCut) {
  const TempDir dir;
  FileSystem& fs = posix_file_system();
  write_file(dir / "a", "aaa");
  const FolderFile file{"a", fs.info(dir / "a").value()};
  const std::string path = dir / "cache/uploads/x.jsonl";
  const LfsActions actions{.part_bytes = 2,
                           .parts = {"http://s/1", "http://s/2"},
                           .completion = "http://h/c",
                           .verification = "http://h/v"};
  {
    const auto journal = UploadJournal::open(fs, path, "one").value();
    EXPECT_THAT(UploadJournal::open(fs, path, "one"), Fails(ErrorCode::kIo, "already"));
    EXPECT_TRUE(journal->is_kept());
    EXPECT_FALSE(journal->sha256_of(file));
    journal->add_sha256(file, "abc");
    journal->add_actions("abc", actions);
    journal->add_part("abc", 1, "\"etag\"");
  }
  const std::string whole = testing::read_file(path);
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    write_file(path, whole.substr(0, size));
    const auto journal = UploadJournal::open(fs, path, "one").value();
    const auto oid = journal->sha256_of(file);
    const auto parts = journal->parts_of("abc");
    EXPECT_TRUE(!oid || *oid == "abc") << size;
    if (!parts) continue;
    EXPECT_EQ(parts->actions.parts, actions.parts);
    EXPECT_EQ(parts->actions.completion, actions.completion);
    EXPECT_EQ(parts->actions.verification, actions.verification);
    EXPECT_EQ(parts->actions.part_bytes, 2u);
    EXPECT_EQ(parts->etags.at(0), "");
    EXPECT_TRUE(parts->etags.at(1).empty() || parts->etags.at(1) == "\"etag\"");
    EXPECT_EQ(parts->etags.at(1).empty(), size < whole.size()) << size;
  }
  FolderFile changed = file;
  ++changed.info.modified_ns;
  {
    const auto journal = UploadJournal::open(fs, path, "one").value();
    EXPECT_TRUE(journal->sha256_of(file));
    EXPECT_FALSE(journal->sha256_of(changed));
  }
  const auto other = UploadJournal::open(fs, path, "two").value();
  EXPECT_FALSE(other->sha256_of(file));
  EXPECT_THAT(other->remove(), IsOk());
  EXPECT_THAT(fs.info(path), Fails(ErrorCode::kNotFound, "x.jsonl"));
}

}  // namespace
}  // namespace shardkit::hub

// upload_folder() against a Hub of a few lines; tests/cli/upload_test.py has one that is complete.
#include "shardkit/hub/upload_folder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>

#include "shardkit/hub/digest.h"
#include "shardkit/hub/folder_files.h"
#include "shardkit/hub/scripted_server_test_util.h"
#include "shardkit/hub/upload_journal.h"
#include "shardkit/io/system_calls.h"
#include "shardkit/json/parse.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/no_threads.h"
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

  std::map<std::string, std::string> answers;  // instead, by a part of the request's line
  std::map<std::string, std::string> objects;  // by SHA-256
  std::string commit;                          // its lines

 private:
  std::string serve(const ScriptedServer::Request& request) {
    const auto has = [&](const char* text) { return request.line.find(text) != std::string::npos; };
    for (const auto& [part, answer] : answers)
      if (has(part.c_str())) return answer;
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

  Result<UploadReport> upload(FileSystem& fs = posix_file_system()) {
    return upload_folder(fs, dir_ / "model", options_,
                         [this](const std::string& name) -> std::optional<std::string> {
                           if (name == "HF_ENDPOINT") return hub_.url();
                           if (name == "HF_TOKEN") return "hf_secret";
                           if (name == "XDG_CACHE_HOME") return dir_ / "cache";
                           return std::nullopt;
                         });
  }

  /// What the Hub says when it is asked how to send the object "a".
  void answer_how(const std::string& actions) {
    hub_.answers["/batch"] =
        ScriptedServer::answer("200 OK", R"({"objects": [{"oid": ")" + sha256("a") +
                                             R"(", "actions": )" + actions + "}]}");
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

TEST_F(UploadFolder, WhatAHubRepeatsOfTheTokenIsNotShown) {
  write_file(dir_ / "model/a.bin", "a");
  const auto answer = [this](const std::string& to, const std::string& body) {
    hub_.answers = {{to, ScriptedServer::answer("200 OK", body)}};
  };
  answer("/preupload/", R"({"files": "hf_secret)");
  EXPECT_THAT(upload(), Fails(ErrorCode::kIo, "not valid JSON"));
  EXPECT_THAT(upload(), Fails(ErrorCode::kIo, R"(last read: '"***')"));
  answer("/batch", R"({"transfer": "\u001b[31m hf_secret"})");
  EXPECT_THAT(upload(), Fails(ErrorCode::kIo, "basic or multipart, found  [31m ***"));
  hub_.answers = {{"/api/", ScriptedServer::answer("307 There", "", "Location: /hf_secret\r\n")},
                  {" /hf_secret", ScriptedServer::answer("500 Oh", "")}};
  EXPECT_THAT(upload(), Fails(ErrorCode::kIo, "3 tries to POST " + hub_.url() + "/***"));
  answer("/commit/", R"({"commitOid": "hf_secret", "commitUrl": "http://h/?t=hf_secret"})");
  const auto report = upload();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->commits.at(0).oid, "***");
  EXPECT_EQ(report->commits.at(0).url, "http://h/?t=***");
}

/// Parts that nobody is told of would be no object.
TEST_F(UploadFolder, AnAddressThatIsEmptyIsNone) {
  write_file(dir_ / "model/a.bin", "a");
  answer_how(R"({"upload": {"href": "", "header": {"chunk_size": 1, "1": "http://s/1"}}})");
  EXPECT_THAT(upload(), Fails(ErrorCode::kIo, "no address"));
  answer_how(R"({"upload": {"href": "http://s/1"}, "verify": {"href": ""}})");
  EXPECT_THAT(upload(), Fails(ErrorCode::kIo, "no address to verify at"));
}

/// By their ETags a storage knows the parts that are put together.
TEST_F(UploadFolder, APartWithoutAnETagIsNotSent) {
  write_file(dir_ / "model/a.bin", "a");
  answer_how(R"({"upload": {"href": ")" + hub_.url() +
             R"(/all", "header": {"chunk_size": 1, "1": ")" + hub_.url() + R"(/part"}}})");
  hub_.answers["PUT /part"] = ScriptedServer::answer("200 OK", "");
  EXPECT_THAT(upload(), Fails(ErrorCode::kIo, "the storage's answer to a part has no ETag: file '" +
                                                  (dir_ / "model/a.bin") + "'"));
  hub_.answers["PUT /part"] = ScriptedServer::answer("200 OK", "", "ETag: \"1\"\r\n");
  EXPECT_THAT(upload(), IsOk());
}

TEST_F(UploadFolder, AHubThatDoesNotAnswerToTheCommit) {
  write_file(dir_ / "model/config.json", "{}");
  hub_.answers = {{"/commit/", ScriptedServer::answer("503 Busy", "")}};
  EXPECT_THAT(upload(),
              Fails(ErrorCode::kIo, "the Hub does not answer to the commit: found 3 tries"));
}

TEST_F(UploadFolder, AThreadIsNotToBeHad) {
  write_file(dir_ / "model/a.bin", "weights");
  const ::shardkit::testing::NoThreads none;
  EXPECT_THAT(upload(), Fails(ErrorCode::kLimit, "the system starts no thread"));
  EXPECT_EQ(hub_.commit, "");
}

TEST_F(UploadFolder, NamesThatNoHubHas) {
  write_file(dir_ / "model/\xff", "");
  EXPECT_THAT(upload(),
              Fails(ErrorCode::kInvalidArgument,
                    "a file's name is not UTF-8, and a Hub takes no other names: file '"));
}

TEST_F(UploadFolder, FoldersInFolders) {
  std::string folder = dir_ / "model";
  for (int i = 0; i < 100; ++i) folder += "/d";
  write_file(folder + "/file", "");
  EXPECT_THAT(upload(), IsOk());
  write_file(folder + "/d/file", "");
  EXPECT_THAT(upload(), Fails(ErrorCode::kLimit,
                              "folders lie too deep inside each other: expected "
                              "at most 100 levels, file '" +
                                  folder + "/d'"));
}

TEST_F(UploadFolder, StopsWhenItIsTold) {
  write_file(dir_ / "model/config.json", "{}");
  const std::atomic<bool> cancel = true;
  options_.cancel = &cancel;
  EXPECT_THAT(upload(), Fails(ErrorCode::kCancelled, "stopped"));
}

/// Changes a file when it is read for the first time, without changing its size.
class ChangingCalls : public SystemCalls {
 public:
  explicit ChangingCalls(std::string path) : path_(std::move(path)) {}

  int open(const char* path, int flags, mode_t mode) override {
    const int fd = SystemCalls::open(path, flags, mode);
    if (path == path_) watched_ = fd;
    return fd;
  }
  ssize_t pread(int fd, void* data, std::size_t bytes, off_t offset) override {
    // Not for the sample of 512 bytes that the Hub is told.
    if (fd == watched_ && bytes > 512 && !is_changed_.exchange(true)) {
      const ssize_t half = SystemCalls::pread(fd, data, bytes / 2, offset);
      write_file(path_, std::string(std::filesystem::file_size(path_), 'n'));
      return half;
    }
    return SystemCalls::pread(fd, data, bytes, offset);
  }

 private:
  const std::string path_;
  std::atomic<int> watched_ = -1;
  std::atomic<bool> is_changed_ = false;
};

TEST_F(UploadFolder, AFileThatChangesWhileItIsReadIsNotKnownByThatDigest) {
  const std::string path = dir_ / "model/a.bin";
  const std::string weights(100'000, 'w');
  write_file(path, weights);
  const auto time = std::filesystem::last_write_time(path) - std::chrono::hours(1);
  std::filesystem::last_write_time(path, time);
  ChangingCalls calls(path);
  const auto changing = make_posix_file_system(calls);
  EXPECT_THAT(upload(*changing), Fails(ErrorCode::kIo, "changed while it was uploaded"));
  EXPECT_EQ(hub_.objects.size(), 0u);
  // As `cp -p` of what it was.
  write_file(path, weights);
  std::filesystem::last_write_time(path, time);
  EXPECT_THAT(upload(), IsOk());
  EXPECT_EQ(hub_.objects[sha256(weights)], weights);
  EXPECT_NE(hub_.commit.find(sha256(weights)), std::string::npos) << hub_.commit;
}

TEST_F(UploadFolder, ARecordThatCannotBeRemovedIsAWarning) {
  class ReadOnly : public SystemCalls {
   public:
    int unlink(const char*) override { return errno = EROFS, -1; }
  };
  write_file(dir_ / "model/config.json", "{}");
  ReadOnly calls;
  const auto fs = make_posix_file_system(calls);
  const auto report = upload(*fs);
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_NE(report->warnings[0].find("the record of this upload stays"), std::string::npos);
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
  {
    // What others can look into, or may have written, is neither read nor used.
    std::filesystem::permissions(dir / "cache/uploads", std::filesystem::perms(0755));
    const auto journal = UploadJournal::open(fs, path, "one").value();
    EXPECT_FALSE(journal->is_kept());
    EXPECT_FALSE(journal->sha256_of(file));
    journal->add_part("abc", 0, "\"etag\"");
    EXPECT_THAT(journal->remove(), IsOk());
    EXPECT_TRUE(std::filesystem::exists(path));
    std::filesystem::permissions(dir / "cache/uploads", std::filesystem::perms(0700));
  }
  const auto other = UploadJournal::open(fs, path, "two").value();
  EXPECT_FALSE(other->sha256_of(file));
  EXPECT_THAT(other->remove(), IsOk());
  EXPECT_THAT(fs.info(path), Fails(ErrorCode::kNotFound, "x.jsonl"));
}

}  // namespace
}  // namespace shardkit::hub

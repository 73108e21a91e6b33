#include "shardkit/hub/commit_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "shardkit/hub/base64.h"
#include "shardkit/io/path.h"
#include "shardkit/json/value.h"
#include "shardkit/json/write.h"

namespace shardkit::hub {
namespace {

std::string json_text(const json::Value& value) {
  return json::write(value, json::WriteStyle::kCompact);
}

json::Value keyed(std::string_view key, json::Object value) {
  json::Object object;
  object.add("key", key);
  object.add("value", std::move(value));
  return object;
}

}  // namespace

CommitBody::CommitBody(FileSystem& fs, const std::string& folder, std::string_view message,
                       const std::vector<CommitFile>& files)
    : files_(fs, 1) {
  const std::size_t line_end = std::min(message.find('\n'), message.size());
  json::Object header;
  header.add("summary", message.substr(0, line_end));
  header.add("description", message.substr(std::min(line_end + 1, message.size())));
  add_text(json_text(keyed("header", std::move(header))) + "\n");
  for (const CommitFile& file : files) {
    json::Object value;
    if (!file.lfs_oid.empty()) {
      value.add("path", file.path);
      value.add("algo", "sha256");
      value.add("oid", file.lfs_oid);
      value.add("size", file.bytes);
      add_text(json_text(keyed("lfsFile", std::move(value))) + "\n");
      continue;
    }
    add_text(R"({"key":"file","value":{"content":")");
    Piece content;
    content.begin = size_;
    content.size = base64_size(file.bytes);
    content.path = join_path(folder, file.path);
    content.file_bytes = file.bytes;
    size_ += content.size;
    pieces_.push_back(std::move(content));
    add_text(fmt::format(R"(","path":{},"encoding":"base64"}}}})", json_text(file.path)) + "\n");
  }
}

void CommitBody::add_text(std::string text) {
  Piece piece;
  piece.begin = size_;
  piece.size = text.size();
  piece.text = std::move(text);
  size_ += piece.size;
  pieces_.push_back(std::move(piece));
}

Status CommitBody::read(std::uint64_t offset, std::span<std::byte> out) {
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                                [](std::uint64_t at, const Piece& p) { return at < p.begin; });
  for (--piece; !out.empty(); ++piece) {
    const std::uint64_t skip = offset - piece->begin;
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), piece->size - skip));
    if (piece->path.empty()) {
      const auto from =
          std::as_bytes(std::span(piece->text)).subspan(static_cast<std::size_t>(skip));
      std::copy_n(from.begin(), bytes, out.begin());
    } else {
      SHARDKIT_TRY(read_content(*piece, skip, out.first(bytes)));
    }
    offset += bytes;
    out = out.subspan(bytes);
  }
  return {};
}

Status CommitBody::read_content(const Piece& piece, std::uint64_t offset,
                                std::span<std::byte> out) {
  SHARDKIT_ASSIGN(const auto file, files_.open(piece.path));
  if (file->size() != piece.file_bytes)
    return Error(ErrorCode::kIo, "the file changed while it was uploaded: upload again")
        .in_file(piece.path);
  // Four characters are three bytes.
  const std::uint64_t group = offset / 4;
  const std::uint64_t begin = group * 3;
  const std::uint64_t end =
      std::min<std::uint64_t>(((offset + out.size() + 3) / 4) * 3, piece.file_bytes);
  std::string bytes(static_cast<std::size_t>(end - begin), '\0');
  SHARDKIT_TRY(file->read_at(begin, std::as_writable_bytes(std::span(bytes))));
  const std::string text = base64(std::as_bytes(std::span(bytes)));
  const auto from =
      std::as_bytes(std::span(text)).subspan(static_cast<std::size_t>(offset - group * 4));
  std::copy_n(from.begin(), out.size(), out.begin());
  return {};
}

}  // namespace shardkit::hub

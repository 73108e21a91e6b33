// TempDir: a folder of its own for one test, removed with all it holds at the end.
#pragma once

#include <string>
#include <string_view>

namespace shardkit::testing {

class TempDir {
 public:
  /// @param parent  an existing folder; empty: the system's folder for such things
  explicit TempDir(const std::string& parent = {});
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  /// "path()/name".
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

/// Writes a file, making the folders it needs; throws if that fails.
void write_file(const std::string& path, std::string_view content);
/// The whole of a file; throws if it cannot be read.
std::string read_file(const std::string& path);

/// A path below the source tree: source_path("tests/fixtures/torch-2.13.0").
std::string source_path(std::string_view relative);

}  // namespace shardkit::testing

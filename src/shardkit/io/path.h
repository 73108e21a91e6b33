// Paths as text: joining, and the form that names a place whatever way it is spelled.
#pragma once

#include <string>
#include <string_view>

namespace shardkit {

/// "folder/name", without a doubled slash.
std::string join_path(std::string_view folder, std::string_view name);

/// The last component: "c" of "a/b/c" and of "a/b/c/".
std::string base_name(std::string_view path);

/// All but the last component: "a/b" of "a/b/c", "/" of "/a", "" of "a".
std::string parent_path(std::string_view path);

/// Absolute, without ".", ".." and links as far as the path exists; the rest is kept as it is.
/// The path itself where the system cannot say.
std::string resolved_path(const std::string& path);

/// Whether `path` is `folder` or lies in it. REQUIRES: both from resolved_path().
bool is_within(std::string_view path, std::string_view folder);

}  // namespace shardkit

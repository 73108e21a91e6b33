#include "shardkit/io/file_cache.h"

namespace shardkit {

Result<std::shared_ptr<const RandomAccessFile>> FileCache::open(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (const auto found = by_path_.find(path); found != by_path_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second);
    return found->second->second;
  }
  SHARDKIT_ASSIGN(std::shared_ptr<const RandomAccessFile> file, fs_.open(path));
  recent_.emplace_front(path, file);
  by_path_[path] = recent_.begin();
  if (recent_.size() > capacity_) {
    by_path_.erase(recent_.back().first);
    recent_.pop_back();
  }
  return file;
}

}  // namespace shardkit

// PublishedFiles: the record of a publication file by file, so that another run can end or undo it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"

namespace shardkit {

/// Paths below the target, parts joined by '/'. The text form has one a line, with a mark in front.
struct PublishedFiles {
  std::vector<std::string> fresh;  ///< of the new content, the key file last
  std::vector<std::string> stale;  ///< of the old content, none of `fresh` among them

  std::string to_text() const;
  /// @error kCorrupt no such text
  static Result<PublishedFiles> from_text(std::string_view text);
};

}  // namespace shardkit

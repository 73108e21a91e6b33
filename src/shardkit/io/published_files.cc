#include "shardkit/io/published_files.h"

namespace shardkit {
namespace {

// The last line: a record that a crash cut short lacks it.
constexpr std::string_view kEnd = "end\n";

}  // namespace

std::string PublishedFiles::to_text() const {
  std::string text;
  for (const std::string& path : fresh) text += "+ " + path + "\n";
  for (const std::string& path : stale) text += "- " + path + "\n";
  return text.append(kEnd);
}

Result<PublishedFiles> PublishedFiles::from_text(std::string_view text) {
  PublishedFiles files;
  while (!text.empty() && text != kEnd) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const bool marked = line.starts_with("+ ") || line.starts_with("- ");
    if (!marked || line.size() == text.size()) break;
    (line.front() == '+' ? files.fresh : files.stale).emplace_back(line.substr(2));
    text.remove_prefix(line.size() + 1);
  }
  if (text != kEnd || files.fresh.empty())
    return Error(ErrorCode::kCorrupt, "the record of which files are to be published is damaged");
  return files;
}

}  // namespace shardkit

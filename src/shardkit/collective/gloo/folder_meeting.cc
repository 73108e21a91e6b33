// Meeting in a folder: a file of each rank, which appears whole.
#include <fmt/format.h>

#include <optional>
#include <thread>

#include "shardkit/collective/gloo/meeting_internal.h"
#include "shardkit/io/file_system.h"

namespace shardkit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPause = std::chrono::milliseconds(5);
constexpr std::uint64_t kLongestCard = 1 << 20;

std::string card_path(const std::string& folder, int rank) {
  return fmt::format("{}/rank_{}.card", folder, rank);
}

Status leave_card(const std::string& folder, int rank, const std::string& card) {
  FileSystem& files = posix_file_system();
  const std::string path = card_path(folder, rank);
  if (files.info(path).ok())
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("an earlier group, or another rank {}, has left its card in the "
                             "folder; each group needs a folder of its own",
                             rank))
        .in_file(path);
  const std::string unfinished = path + ".unfinished";
  SHARDKIT_ASSIGN(const auto file, files.create(unfinished));
  SHARDKIT_TRY(file->write_at(0, std::as_bytes(std::span(card))));
  SHARDKIT_TRY(file->close());
  return files.rename(unfinished, path);
}

// The card, or none if it is not there yet.
Result<std::optional<std::string>> find_card(const std::string& path) {
  auto file = posix_file_system().open(path);
  if (!file.ok() && file.error().code() == ErrorCode::kNotFound)
    return std::optional<std::string>();
  if (!file.ok()) return std::move(file).error();
  if ((*file)->size() > kLongestCard)
    return Error(ErrorCode::kPeer, "a rank's card is too long")
        .in_file(path)
        .expected(fmt::format("at most {} bytes", kLongestCard))
        .found(std::to_string((*file)->size()));
  std::string card((*file)->size(), '\0');
  SHARDKIT_TRY((*file)->read_at(0, std::as_writable_bytes(std::span(card))));
  return std::optional(std::move(card));
}

}  // namespace

Result<std::vector<std::string>> meet_in_folder(const std::string& folder, const Meeting& meeting,
                                                const std::string& card) {
  SHARDKIT_TRY(leave_card(folder, meeting.rank, card));
  std::vector<std::string> cards;
  for (int rank = 0; rank < meeting.size; ++rank) {
    for (;;) {
      SHARDKIT_ASSIGN(auto found, find_card(card_path(folder, rank)));
      if (found) {
        cards.push_back(*std::move(found));
        break;
      }
      if (Clock::now() >= meeting.deadline)
        return Error(ErrorCode::kPeer,
                     fmt::format("making a group of {} ranks: rank {} had not come in time",
                                 meeting.size, rank))
            .in_file(folder);
      std::this_thread::sleep_for(kPause);
    }
  }
  return cards;
}

}  // namespace shardkit

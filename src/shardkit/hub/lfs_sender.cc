#include "shardkit/hub/lfs_sender.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "shardkit/hub/request_body.h"
#include "shardkit/io/path.h"

namespace shardkit::hub {
namespace {

constexpr int kMostRenewals = 3;
constexpr std::size_t kLongestEtag = 1000;

bool is_etag(std::string_view text) {
  return !text.empty() && text.size() <= kLongestEtag &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace

struct LfsSender::Sending {
  const FolderFile file;
  const LfsObject object;
  // Under the sender's mutex:
  LfsActions actions;
  std::vector<std::string> etags;   // of the parts that are there
  std::deque<std::size_t> to_send;  // parts that no connection has taken
  std::size_t not_there = 0;        // parts
  std::uint64_t bytes_before = 0;   // of parts that another run has sent
  int generation = 0;               // of the addresses

  std::uint64_t bytes_of(std::size_t part) const {
    if (actions.part_bytes == 0) return object.bytes;
    return std::min(actions.part_bytes, object.bytes - part * actions.part_bytes);
  }
  /// All parts, to new addresses.
  void start(LfsActions to) {
    actions = std::move(to);
    etags.assign(actions.parts.size(), "");
    not_there = etags.size();
    bytes_before = 0;
    to_send.clear();
    for (std::size_t part = 0; part < etags.size(); ++part) to_send.push_back(part);
  }
};

struct LfsSender::Part {
  std::shared_ptr<Sending> of;
  int generation = 0;
  bool is_end = false;  ///< no part: all are there, and that must be told
  std::size_t number = 0;
  std::string address;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

Result<std::unique_ptr<LfsSender>> LfsSender::make(
    HubSession& session, FileSystem& fs, const std::string& folder, const std::string& repo,
    const std::string& branch, UploadJournal& journal, ProgressCounter& progress, int connections,
    std::function<void(const std::string&)> on_done) {
  std::unique_ptr<LfsSender> sender(
      new LfsSender(session, fs, folder, journal, progress, std::move(on_done)));
  for (int i = 0; i < connections; ++i) {
    SHARDKIT_ASSIGN(HubClient client, HubClient::make(session));
    try {
      sender->threads_.emplace_back(
          [raw = sender.get(), repo, branch, own = std::make_shared<HubClient>(std::move(client))] {
            RepoApi api(*own, repo, branch);
            raw->work(*own, api);
          });
    } catch (const std::system_error&) {
      if (i > 0) break;  // fewer connections send as well
      return Error(ErrorCode::kLimit, "the system starts no thread to work in the background");
    }
  }
  return sender;
}

LfsSender::~LfsSender() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void LfsSender::add(FolderFile file, std::string oid, LfsActions actions) {
  const std::uint64_t bytes = file.info.bytes;
  const std::shared_ptr<Sending> sending(new Sending{.file = std::move(file),
                                                     .object = {std::move(oid), bytes},
                                                     .actions = {},
                                                     .etags = {},
                                                     .to_send = {}});
  {
    const std::lock_guard lock(mutex_);
    sending->start(std::move(actions));
    if (sending->actions.part_bytes != 0) take_up(*sending);
    queue_.push_back(sending);
  }
  changed_.notify_all();
}

/// Leaves out the parts that an upload which died has sent. Whether their addresses still are good,
/// sending or ending tells: see renew().
void LfsSender::take_up(Sending& sending) {
  const auto before = journal_.parts_of(sending.object.oid);
  if (!before || before->actions.part_bytes != sending.actions.part_bytes ||
      before->etags.size() != sending.etags.size()) {
    journal_.add_actions(sending.object.oid, sending.actions);
    return;
  }
  sending.actions = before->actions;
  sending.to_send.clear();
  for (std::size_t part = 0; part < sending.etags.size(); ++part) {
    if (is_etag(before->etags[part])) {
      sending.etags[part] = before->etags[part];
      sending.bytes_before += sending.bytes_of(part);
    } else {
      sending.to_send.push_back(part);
    }
  }
  sending.not_there = sending.to_send.size();
  progress_.update([&](UploadProgress& all) { all.bytes_total -= sending.bytes_before; });
}

void LfsSender::work(HubClient& client, RepoApi& api) {
  while (const auto part = take_part()) {
    auto status =
        part->is_end ? finish(api, part->of, part->generation) : send_part(client, api, *part);
    if (status.ok()) continue;
    {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::move(status).error();
    }
    session_.stop();
    changed_.notify_all();
    on_done_("");
  }
}

std::optional<LfsSender::Part> LfsSender::take_part() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closing_ || error_ || !queue_.empty(); });
  if (closing_ || error_) return std::nullopt;
  Part part;
  part.of = queue_.front();
  Sending& sending = *part.of;
  part.generation = sending.generation;
  if (sending.to_send.empty()) {
    part.is_end = true;
  } else {
    part.number = sending.to_send.front();
    sending.to_send.pop_front();
    part.address = sending.actions.parts[part.number];
    part.begin = part.number * sending.actions.part_bytes;
    part.bytes = sending.bytes_of(part.number);
  }
  if (sending.to_send.empty()) queue_.pop_front();
  return part;
}

Status LfsSender::send_part(HubClient& client, RepoApi& api, const Part& part) {
  SHARDKIT_TRY(check_unchanged(fs_, folder_, part.of->file));
  SHARDKIT_ASSIGN(std::shared_ptr<const RandomAccessFile> file,
                  fs_.open(join_path(folder_, part.of->file.path)));
  FileRangeBody body(std::move(file), part.begin, part.bytes);
  std::uint64_t told = 0;
  const auto tell = [&](std::uint64_t bytes) {
    progress_.update([&](UploadProgress& all) { all.bytes_done += bytes - told; });
    told = bytes;
  };
  HubRequest request;
  request.http.method = "PUT";
  SHARDKIT_ASSIGN(request.http.url, api.storage_url(part.address));
  request.http.body = &body;
  request.http.on_sent = tell;
  request.with_token = false;  // the address itself is the permission
  const auto response = client.send(std::move(request));
  const bool is_sent = response.ok() && response->status >= 200 && response->status < 300;
  tell(is_sent ? part.bytes : 0);
  if (!response.ok()) return response.error();
  if (!is_sent) return renew(api, part.of, part.generation, *response);
  SHARDKIT_TRY(check_unchanged(fs_, folder_, part.of->file));

  const std::string etag(response->header("etag"));
  bool are_all_there = false;
  {
    const std::lock_guard lock(mutex_);
    Sending& sending = *part.of;
    sent_bytes_ += part.bytes;
    if (sending.generation == part.generation) {
      if (sending.actions.part_bytes != 0) {
        if (!is_etag(etag))
          return Error(ErrorCode::kIo, "the storage's answer to a part has no ETag")
              .in_file(join_path(folder_, sending.file.path));
        sending.etags[part.number] = etag;
        journal_.add_part(sending.object.oid, part.number, etag);
      }
      are_all_there = --sending.not_there == 0;
    } else {
      tell(0);  // it is sent again, to another address
    }
  }
  return are_all_there ? finish(api, part.of, part.generation) : Status();
}

/// REQUIRES: all parts are there. Only one thread comes here for them.
Status LfsSender::finish(RepoApi& api, const std::shared_ptr<Sending>& sending, int generation) {
  if (!sending->actions.completion.empty()) {
    SHARDKIT_ASSIGN(const HttpResponse response,
                    api.complete(sending->actions.completion, sending->object.oid, sending->etags));
    if (response.status < 200 || response.status >= 300)
      return renew(api, sending, generation, response);
  }
  if (!sending->actions.verification.empty())
    SHARDKIT_TRY(api.verify(sending->actions.verification, sending->object, sending->file.path));
  end(*sending);
  return {};
}

/// The storage refuses an address. It may have expired, so another is asked for; the parts that
/// were sent to the old ones are lost.
Status LfsSender::renew(RepoApi& api, const std::shared_ptr<Sending>& sending, int generation,
                        const HttpResponse& refused) {
  std::uint64_t lost = 0;
  {
    const std::lock_guard lock(mutex_);
    if (sending->generation != generation) return {};  // another thread does it
    if (++sending->generation > kMostRenewals)
      return api.storage_refusal(refused, sending->file.path);
    std::erase(queue_, sending);
    for (std::size_t part = 0; part < sending->etags.size(); ++part)
      if (!sending->etags[part].empty()) lost += sending->bytes_of(part);
    lost -= sending->bytes_before;
    progress_.update([&](UploadProgress& all) {
      all.bytes_done -= lost;
      all.bytes_total += sending->bytes_before;
    });
  }
  SHARDKIT_ASSIGN(auto actions, api.lfs_batch(std::span(&sending->object, 1)));
  if (actions.front().is_there) {
    progress_.update([&](UploadProgress& all) { all.bytes_done += sending->object.bytes; });
    end(*sending);
    return {};
  }
  {
    const std::lock_guard lock(mutex_);
    sending->start(std::move(actions.front()));
    if (sending->actions.part_bytes != 0)
      journal_.add_actions(sending->object.oid, sending->actions);
    queue_.push_front(sending);
  }
  changed_.notify_all();
  return {};
}

void LfsSender::end(const Sending& sending) { on_done_(sending.object.oid); }

std::size_t LfsSender::waiting_parts() const {
  const std::lock_guard lock(mutex_);
  std::size_t parts = 0;
  for (const auto& sending : queue_) parts += sending->to_send.size();
  return parts;
}

Status LfsSender::result() const {
  const std::lock_guard lock(mutex_);
  if (error_) return *error_;
  return {};
}

std::uint64_t LfsSender::sent_bytes() const {
  const std::lock_guard lock(mutex_);
  return sent_bytes_;
}

}  // namespace shardkit::hub

// The steps of a merge on all ranks: in each, all do their part, and all learn how it ended.
#include "shardkit/joint_merge/joint_merge.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/base/random_number.h"
#include "shardkit/collective/agreement.h"
#include "shardkit/collective/message.h"
#include "shardkit/joint_merge/agree_on_copies.h"
#include "shardkit/joint_merge/agree_on_output.h"
#include "shardkit/joint_merge/joint_file_system.h"
#include "shardkit/joint_merge/told_records.h"
#include "shardkit/merge/block_journal.h"
#include "shardkit/merge/file_sink.h"
#include "shardkit/transfer/output_blocks.h"
#include "shardkit/transfer/transfer.h"

namespace shardkit {
namespace {

/// In the stage: a number by which a rank knows that the stage it sees is the one of this run.
constexpr std::string_view kTokenName = "ranks";
constexpr std::uint64_t kTokenLimit = 4096;

std::vector<std::string> folders_of(const MergeOptions& options) {
  std::vector<std::string> folders = {options.local_dir};
  folders.insert(folders.end(), options.more_local_dirs.begin(), options.more_local_dirs.end());
  for (const std::string& folder : {options.hf_folder, options.base_model_dir})
    if (!folder.empty()) folders.push_back(folder);
  return folders;
}

/// What rank 0 tells of the stage.
struct StageNews {
  bool is_written = false;
  std::string content;  ///< folder of the files
  std::string journal;  ///< path
  std::string token_path;
  std::string token;
};

std::string encode(const StageNews& news) {
  MessageWriter out;
  out.put(static_cast<std::int64_t>(news.is_written));
  for (const std::string* text : {&news.content, &news.journal, &news.token_path, &news.token})
    out.put(*text);
  return std::move(out).take();
}

Result<StageNews> decode(std::string_view bytes) {
  MessageReader in(bytes);
  StageNews news;
  SHARDKIT_ASSIGN(const std::int64_t is_written, in.number_up_to(1));
  news.is_written = is_written != 0;
  for (std::string* text : {&news.content, &news.journal, &news.token_path, &news.token}) {
    SHARDKIT_ASSIGN(*text, in.text());
  }
  SHARDKIT_TRY(in.expect_end());
  return news;
}

Status write_small_file(FileSystem& fs, const std::string& path, std::string_view text) {
  SHARDKIT_TRY(fs.remove_all(path));
  SHARDKIT_ASSIGN(const auto file, fs.create(path));
  SHARDKIT_TRY(file->write_at(0, std::as_bytes(std::span(text))));
  return file->close();
}

/// One rank's part of a merge.
class JointMerge {
 public:
  JointMerge(FileSystem& fs, const MergeOptions& options, ProcessGroup& group)
      : fs_(fs),
        options_(options),
        group_(group),
        files_(fs, group, folders_of(options), options.target_dir),
        merger_(files_, options) {}

  Result<MergeReport> plan();
  Result<std::optional<MergeReport>> find_merged();
  Result<MergeReport> merge();

 private:
  bool leads() const { return group_.rank() == 0; }
  RankCalls& calls() { return files_.calls(); }

  Status merge_steps();
  Status decide();
  Status make_stage();
  Status open_stage();
  Status write_weights();
  Status finish();
  Status collect_results(const FileSink& sink);

  FileSystem& fs_;
  const MergeOptions& options_;
  ProcessGroup& group_;
  JointFileSystem files_;
  FSDPModelMerger merger_;
  std::optional<OutputDecision> decision_;
  std::optional<StagedMerge> staged_;    // on rank 0
  std::optional<BlockJournal> journal_;  // on rank 0
  StageNews stage_;
  std::vector<ManifestFile> weights_;  // on rank 0
};

Result<MergeReport> JointMerge::plan() {
  SHARDKIT_TRY(agree_on_command(group_, options_));
  std::optional<MergeReport> report;
  const auto decide_unread = [this, &report]() -> Status {
    SHARDKIT_ASSIGN(report, merger_.plan());
    SHARDKIT_ASSIGN(const MergeSource* source, merger_.open_source());
    SHARDKIT_ASSIGN(decision_, decide_output(files_, *source, options_, TensorBytes::kUnread));
    return {};
  };
  SHARDKIT_TRY(calls().run(decide_unread));
  SHARDKIT_ASSIGN(const MergeSource* source, merger_.open_source());
  SHARDKIT_TRY(agree_on_output(group_, *source, *decision_));
  return *std::move(report);
}

Result<std::optional<MergeReport>> JointMerge::find_merged() {
  SHARDKIT_TRY(agree_on_command(group_, options_));
  std::optional<MergeReport> found;
  const auto look = [this, &found]() -> Status {
    SHARDKIT_ASSIGN(found, merger_.find_merged());
    return {};
  };
  SHARDKIT_TRY(calls().run([&] { return leads() ? look() : Status(); }));
  SHARDKIT_ASSIGN(const auto messages, exchange_messages(group_, std::string(found ? "yes" : "")));
  if (!leads() && !messages.front().empty()) found.emplace();
  return found;
}

Result<MergeReport> JointMerge::merge() {
  const Status status = merge_steps();
  if (!status.ok()) {
    // Nobody may still write into a stage that is removed: they meet once more. One that is gone
    // cannot, and what it has written is worth as much as after a merge that was killed.
    if (status.error().code() != ErrorCode::kPeer) {
      [[maybe_unused]] const Status met = group_.barrier();
    } else if (staged_) {
      staged_->stage.keep();
    }
    return status.error();
  }
  if (staged_) return std::move(staged_->report);
  SHARDKIT_ASSIGN(const MergeSource* source, merger_.open_source());
  return make_merge_report(*source, *decision_);
}

Status JointMerge::merge_steps() {
  SHARDKIT_TRY(agree_on_command(group_, options_));
  SHARDKIT_TRY(calls().run([this] { return decide(); }));
  SHARDKIT_ASSIGN(const MergeSource* source, merger_.open_source());
  SHARDKIT_TRY(agree_on_output(group_, *source, *decision_));
  SHARDKIT_TRY(
      agree_on_copies(fs_, calls(), group_, source->catalog->files, options_.transfer.cancel));
  SHARDKIT_TRY(open_stage());
  if (!stage_.is_written) {
    SHARDKIT_TRY(write_weights());
    SHARDKIT_TRY(calls().run([this] { return finish(); }));
  }
  return calls().run([this] { return leads() ? staged_->stage.publish() : Status(); });
}

Status JointMerge::decide() {
  SHARDKIT_TRY(merger_.open_source());
  if (leads()) SHARDKIT_TRY(merger_.check_target());  // before tensor bytes are read
  SHARDKIT_ASSIGN(decision_, merger_.decide());
  return {};
}

/// What the other ranks write into, on rank 0.
Status JointMerge::make_stage() {
  SHARDKIT_ASSIGN(StagedMerge staged, merger_.stage_output(*decision_));
  staged_.emplace(std::move(staged));
  StagedFolder& stage = staged_->stage;
  stage_ = {staged_->is_written,
            stage.content_path(""),
            stage.control_path(kBlockJournalName),
            stage.control_path(kTokenName),
            {}};
  if (stage_.is_written) return {};
  SHARDKIT_ASSIGN(const std::uint64_t token, random_number());
  stage_.token = fmt::format("{:016x}\n", token);
  SHARDKIT_TRY(write_small_file(fs_, stage_.token_path, stage_.token));
  SHARDKIT_ASSIGN(journal_, BlockJournal::open(fs_, stage_.journal));
  for (const PlannedFile& file : decision_->output.plan.files()) {
    if (fs_.info(stage.content_path(file.name)).ok()) continue;
    SHARDKIT_ASSIGN(const auto made, stage.create_file(file.name));
    SHARDKIT_TRY(made->close());
  }
  return {};
}

Status JointMerge::open_stage() {
  SHARDKIT_TRY(calls().run([this] { return leads() ? make_stage() : Status(); }));
  SHARDKIT_ASSIGN(const auto messages, exchange_messages(group_, encode(stage_)));
  SHARDKIT_ASSIGN(stage_, decode(messages.front()));
  if (stage_.is_written) return {};
  const auto token = read_whole_file(fs_, stage_.token_path, kTokenLimit);
  Status seen;
  if (!token.ok() || *token != stage_.token)
    seen = Error(ErrorCode::kIo,
                 "this rank does not see what rank 0 has made beside the target: "
                 "all ranks must see the disk that the target is on")
               .in_file(stage_.token_path)
               .found(token.ok() ? "a file of another run" : token.error().message());
  return agree_on_status(group_, std::move(seen));
}

Status JointMerge::finish() {
  if (leads()) SHARDKIT_TRY(merger_.write_others(*decision_, *staged_, std::move(weights_)));
  return merger_.check_inputs();
}

Status JointMerge::write_weights() {
  const Plan& plan = decision_->output.plan;
  auto recorded = BlockJournal::read(fs_, stage_.journal);
  SHARDKIT_TRY(agree_on_status(group_, recorded.ok() ? Status() : Status(recorded.error())));
  const OutputBlocks blocks(plan.files());
  ToldRecords records(*std::move(recorded));
  FileSink sink(fs_, stage_.content, options_.durability, records, plan,
                blocks.share(group_.rank(), group_.size()));
  TransferOptions transfer_options = options_.transfer;
  transfer_options.blocks = blocks.share(group_.rank(), group_.size());
  transfer_options.cancel = &calls().is_stopped();
  transfer_options.on_progress = [&records](const Progress& progress) {
    records.set_bytes_done(progress.bytes_done);
  };
  std::vector<std::uint64_t> bytes_done(static_cast<std::size_t>(group_.size()), 0);
  RankCalls::Notes notes;
  notes.tell = [&records] { return records.take_note(); };
  notes.hear = [&](int from, std::string_view bytes) -> Status {
    if (!leads()) return {};
    SHARDKIT_ASSIGN(const ToldRecords::Note note, ToldRecords::read_note(bytes));
    for (const ToldRecords::Record& record : note.records)
      SHARDKIT_TRY(journal_->append(record.file, record.block, record.hash));
    bytes_done[static_cast<std::size_t>(from)] = note.bytes_done;
    if (from + 1 == group_.size() && options_.transfer.on_progress)
      options_.transfer.on_progress(
          {std::accumulate(bytes_done.begin(), bytes_done.end(), std::uint64_t{0}),
           plan.summary().write_bytes});
    return {};
  };
  SHARDKIT_TRY(calls().run([&] { return transfer(plan, files_, sink, transfer_options); }, notes,
                           options_.transfer.cancel));
  SHARDKIT_TRY(agree_on_status(group_, journal_ ? journal_->close() : Status()));
  return collect_results(sink);
}

/// What the sinks of all ranks know, for the manifest and the report.
Status JointMerge::collect_results(const FileSink& sink) {
  const Plan& plan = decision_->output.plan;
  const OutputBlocks blocks(plan.files());
  const auto hash_of = [&blocks](auto& hashes, std::uint64_t block) -> auto& {
    const OutputBlocks::Place place = blocks.at(block);
    return hashes[place.file][static_cast<std::size_t>(place.offset / kBlockBytes)];
  };
  MessageWriter out;
  out.put(static_cast<std::int64_t>(sink.blocks_kept()));
  out.put(static_cast<std::int64_t>(sink.overflows().size()));
  for (const auto& [tensor, values] : sink.overflows()) {
    out.put(static_cast<std::int64_t>(tensor));
    out.put(static_cast<std::int64_t>(values));
  }
  const BlockRange mine = blocks.share(group_.rank(), group_.size());
  for (std::uint64_t block = mine.begin; block < mine.end; ++block)
    out.put(static_cast<std::int64_t>(hash_of(sink.hashes(), block)));
  SHARDKIT_ASSIGN(const auto messages, exchange_messages(group_, std::move(out).take()));
  std::vector<std::vector<std::uint64_t>> hashes = sink.hashes();
  const auto last_tensor = static_cast<std::int64_t>(plan.catalog().tensors.size()) - 1;
  std::uint64_t blocks_kept = 0;
  std::map<std::size_t, std::uint64_t> overflows;
  for (int rank = 0; rank < group_.size(); ++rank) {
    MessageReader in(messages[static_cast<std::size_t>(rank)]);
    SHARDKIT_ASSIGN(const std::int64_t kept, in.number());
    blocks_kept += static_cast<std::uint64_t>(kept);
    SHARDKIT_ASSIGN(const std::size_t count, in.count());
    for (std::size_t i = 0; i < count; ++i) {
      SHARDKIT_ASSIGN(const std::int64_t tensor, in.number_up_to(last_tensor));
      SHARDKIT_ASSIGN(const std::int64_t values, in.number());
      overflows[static_cast<std::size_t>(tensor)] += static_cast<std::uint64_t>(values);
    }
    const BlockRange theirs = blocks.share(rank, group_.size());
    for (std::uint64_t block = theirs.begin; block < theirs.end; ++block) {
      SHARDKIT_ASSIGN(const std::int64_t hash, in.number());
      hash_of(hashes, block) = static_cast<std::uint64_t>(hash);
    }
    SHARDKIT_TRY(in.expect_end());
  }
  if (!leads()) return {};
  for (std::size_t file = 0; file < plan.files().size(); ++file)
    weights_.push_back(
        {plan.files()[file].name, plan.files()[file].bytes, std::move(hashes[file])});
  staged_->report.blocks_kept = blocks_kept;
  report_overflows(plan.catalog(), overflows, staged_->report);
  return {};
}

}  // namespace

Result<MergeReport> merge_jointly(FileSystem& fs, const MergeOptions& options,
                                  ProcessGroup& group) {
  return JointMerge(fs, options, group).merge();
}

Result<MergeReport> plan_jointly(FileSystem& fs, const MergeOptions& options, ProcessGroup& group) {
  return JointMerge(fs, options, group).plan();
}

Result<std::optional<MergeReport>> find_merged_jointly(FileSystem& fs, const MergeOptions& options,
                                                       ProcessGroup& group) {
  return JointMerge(fs, options, group).find_merged();
}

}  // namespace shardkit

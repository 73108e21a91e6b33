#include "shardkit/joint_merge/agree_on_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/base/version.h"
#include "shardkit/collective/agreement.h"
#include "shardkit/collective/message.h"
#include "shardkit/io/path.h"
#include "shardkit/json/parse.h"
#include "shardkit/json/value.h"
#include "shardkit/json/write.h"
#include "shardkit/merge/manifest.h"

namespace shardkit {
namespace {

/// Things by name, of which all ranks must have the same.
struct Fact {
  std::string name;  ///< for people
  std::string value;
};

std::string encode(const std::vector<Fact>& facts) {
  MessageWriter out;
  out.put(static_cast<std::int64_t>(facts.size()));
  for (const Fact& fact : facts) {
    out.put(fact.name);
    out.put(fact.value);
  }
  return std::move(out).take();
}

Result<std::vector<Fact>> decode(std::string_view bytes) {
  MessageReader in(bytes);
  SHARDKIT_ASSIGN(const std::size_t count, in.count());
  std::vector<Fact> facts;
  for (std::size_t i = 0; i < count; ++i) {
    Fact fact;
    SHARDKIT_ASSIGN(fact.name, in.text());
    SHARDKIT_ASSIGN(fact.value, in.text());
    facts.push_back(std::move(fact));
  }
  SHARDKIT_TRY(in.expect_end());
  return facts;
}

/// @param code  of the error where ranks differ
Status agree(ProcessGroup& group, const std::vector<Fact>& mine, ErrorCode code) {
  SHARDKIT_ASSIGN(const auto messages, exchange_messages(group, encode(mine)));
  SHARDKIT_ASSIGN(const std::vector<Fact> expected, decode(messages.front()));
  for (std::size_t rank = 1; rank < messages.size(); ++rank) {
    if (messages[rank] == messages.front()) continue;
    SHARDKIT_ASSIGN(const std::vector<Fact> found, decode(messages[rank]));
    for (std::size_t i = 0; i < expected.size() && i < found.size(); ++i)
      if (expected[i].name != found[i].name || expected[i].value != found[i].value)
        return Error(code, fmt::format("ranks 0 and {} differ in {}", rank, expected[i].name))
            .expected(fmt::format("'{}', as on rank 0", expected[i].value))
            .found(fmt::format("'{}'", found[i].value));
    return Error(code, fmt::format("ranks 0 and {} differ", rank));
  }
  return {};
}

/// A member of merge_identity().
Result<std::string> member_text(const json::Value& identity, std::string_view name) {
  const json::Value* member = identity.find(name);
  if (member == nullptr)
    return Error(ErrorCode::kInternal, fmt::format("an identity without '{}'", name));
  return json::write(*member, json::WriteStyle::kCompact);
}

}  // namespace

Status agree_on_command(ProcessGroup& group, const MergeOptions& options) {
  return agree(
      group,
      {{"the version of shardkit", std::string(version())},
       {"the checkpoint's folder", options.local_dir},
       {"the checkpoint's other folders",
        fmt::format("{}", fmt::join(options.more_local_dirs, "', '"))},
       {"the target folder", options.target_dir},
       {"the model's folder", options.hf_folder},
       {"the base model's folder", options.base_model_dir},
       {"whether names must be the base model's", options.strict_names ? "yes" : "no"},
       {"whether to overwrite", options.existing == ExistingTarget::kReplace ? "yes" : "no"},
       {"whether to sync", options.durability == Durability::kSynced ? "yes" : "no"}},
      ErrorCode::kInvalidArgument);
}

Status agree_on_output(ProcessGroup& group, const MergeSource& source,
                       const OutputDecision& decision) {
  // Without paths, which links may resolve in another way on each host, and times, which copies
  // need not share.
  auto identity = json::parse(merge_identity(source, decision));
  if (!identity.ok()) return Error(identity.error()).in_file(source.checkpoint.path);
  SHARDKIT_ASSIGN(std::string choices, member_text(*identity, "options"));
  SHARDKIT_ASSIGN(std::string files, member_text(*identity, "files"));
  SHARDKIT_TRY(agree(group,
                     {{"the folder they found the checkpoint in", source.checkpoint.path},
                      {"their options", std::move(choices)}},
                     ErrorCode::kInvalidArgument));
  std::vector<Fact> facts;
  for (const SourceFile& file : source.catalog->files)
    facts.push_back(
        {fmt::format("their copies of '{}'", file.path),
         fmt::format("{} bytes, directory CRC {:08x}", file.bytes, file.directory_crc)});
  if (identity->find("lora") != nullptr) {
    SHARDKIT_ASSIGN(std::string lora, member_text(*identity, "lora"));
    facts.push_back(
        {"what their adapter_config.json and lora_train_meta.json say", std::move(lora)});
  }
  SHARDKIT_TRY(agree(group, facts, ErrorCode::kIncomplete));
  // The sources are equal: what is left is the config.
  return agree(group, {{"what config.json makes of the output", std::move(files)}},
               ErrorCode::kIncomplete);
}

}  // namespace shardkit

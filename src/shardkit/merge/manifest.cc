#include "shardkit/merge/manifest.h"

#include <fmt/format.h>

#include <charconv>
#include <span>
#include <utility>

#include "shardkit/base/version.h"
#include "shardkit/io/path.h"
#include "shardkit/json/parse.h"
#include "shardkit/json/value.h"
#include "shardkit/json/write.h"
#include "shardkit/transfer/block_hash.h"
#include "shardkit/transfer/transfer.h"

namespace shardkit {
namespace {

std::string_view replica_text(ReplicaPolicy policy) {
  return policy == ReplicaPolicy::kFirst ? "first" : "compare";
}

std::string_view plain_text(PlainTensors plain) {
  switch (plain) {
    case PlainTensors::kAuto: return "auto";
    case PlainTensors::kReplicate: return "replicate";
    case PlainTensors::kConcat: return "concat";
  }
  return "auto";
}

json::Array text_array(const std::vector<std::string>& texts) {
  json::Array array;
  for (const std::string& text : texts) array.items.emplace_back(text);
  return array;
}

json::Object options_object(const OutputDecision& decision) {
  const OutputChoices& choices = decision.choices;
  json::Object options;
  const bool keep = choices.dtype.kind == hf::DTypeChoice::Kind::kKeep;
  options.add("dtype", keep ? "keep" : torch_name(choices.dtype.dtype));
  if (!choices.dtype.keep.empty()) options.add("keep_dtype", text_array(choices.dtype.keep));
  options.add("max_shard_bytes", choices.max_shard_bytes);
  options.add("replicas", replica_text(choices.replicas));
  options.add("plain_tensors", plain_text(choices.plain));
  options.add("keep_tied", choices.keep_tied);
  if (!decision.lora) return options;
  options.add("lora", to_string(choices.lora.mode));
  options.add("adapter", choices.lora.adapter);
  options.add("lora_alpha", choices.lora.alpha ? json::Value(*choices.lora.alpha) : json::Value());
  return options;
}

json::Object source_object(const SourceFile& file) {
  json::Object object;
  object.add("name", base_name(file.path));
  object.add("bytes", file.bytes);
  object.add("modified_ns", file.modified_ns);
  object.add("directory_crc", fmt::format("{:08x}", file.directory_crc));
  return object;
}

json::Object file_object(const ManifestFile& file) {
  json::Array hashes;
  for (const std::uint64_t hash : file.hashes) hashes.items.emplace_back(hash_text(hash));
  json::Object object;
  object.add("name", file.name);
  object.add("bytes", file.bytes);
  object.add("xxh3_64", std::move(hashes));
  return object;
}

/// What decides the bytes of folded tensors and of adapter_config.json, beyond the inputs that are
/// told by size and time.
std::string lora_hash(const OutputDecision& decision) {
  std::string text = decision.adapter_config;
  for (const CatalogTensor& tensor : decision.model->tensors)
    if (tensor.fold)
      text += fmt::format("\n{} {} {} {}", tensor.name, tensor.fold->a->name, tensor.fold->scale,
                          tensor.fold->transposed);
  return hash_text(block_hash(std::as_bytes(std::span(text))));
}

/// How rows come in another order: config.json decides, and no head tells.
std::string row_orders(const Catalog& catalog, const PlannedFile& file) {
  std::string text;
  for (const PlannedTensor& step : file.tensors) {
    const CatalogTensor& tensor = catalog.tensors[step.tensor];
    if (tensor.written_shape)
      text += fmt::format("\n{} {} {}", tensor.name, tensor.made_of, to_string(tensor.shape));
  }
  return text;
}

/// What decides the bytes and stands nowhere else in a manifest; empty: nothing does.
std::string unseen_choices(const OutputDecision& decision) {
  std::string text;
  for (const PlannedFile& file : decision.output.plan.files())
    text += row_orders(decision.output.plan.catalog(), file);
  if (decision.lora) text += lora_hash(decision);
  return text.empty() ? text : hash_text(block_hash(std::as_bytes(std::span(text))));
}

json::Object tensor_object(const CatalogTensor& tensor, const PlannedTensor& step,
                           const std::string& file) {
  json::Array shape;
  for (const std::int64_t size : tensor.shape_to_write()) shape.items.emplace_back(size);
  json::Object object;
  object.add("name", tensor.name);
  object.add("file", file);
  object.add("dtype", torch_name(step.dtype));
  object.add("stored_dtype", torch_name(tensor.dtype));
  object.add("shape", std::move(shape));
  object.add("layout", describe_layout(tensor));
  if (!tensor.made_of.empty()) object.add("made_of", tensor.made_of);
  return object;
}

std::string compact(json::Value value) { return json::write(value, json::WriteStyle::kCompact); }

/// Appends members of the outermost object, one entry of a list a line, so that the text can be
/// read and compared by people though no tree of it is ever held.
class ManifestWriter {
 public:
  void member(std::string_view name, std::string value) {
    text_ +=
        fmt::format("{}\n  {}: {}", text_.empty() ? "{" : ",", compact(json::Value(name)), value);
  }
  void begin_list(std::string_view name) {
    member(name, "[");
    first_ = true;
  }
  void entry(json::Object object) {
    text_ += fmt::format("{}\n    {}", first_ ? "" : ",", compact(json::Value(std::move(object))));
    first_ = false;
  }
  void end_list() { text_ += first_ ? "]" : "\n  ]"; }
  std::string finish() && { return std::move(text_) + "\n}\n"; }

 private:
  std::string text_;
  bool first_ = true;
};

Error damaged(std::string what) {
  return {ErrorCode::kCorrupt, "this is no manifest of a merge: " + std::move(what)};
}

Result<std::string> text_member(const json::Value& object, std::string_view key) {
  const json::Value* value = object.find(key);
  const auto* text = value != nullptr ? value->get_if<std::string>() : nullptr;
  if (text == nullptr) return damaged(fmt::format("'{}' is missing or no string", key));
  return *text;
}

Result<std::uint64_t> number_member(const json::Value& object, std::string_view key) {
  const json::Value* value = object.find(key);
  const auto number = value != nullptr ? value->as_uint64() : std::nullopt;
  if (!number) return damaged(fmt::format("'{}' is missing or no number", key));
  return *number;
}

Result<std::uint64_t> parse_hash(const json::Value& value) {
  const auto* text = value.get_if<std::string>();
  std::uint64_t hash = 0;
  if (text == nullptr || text->size() != 16) return damaged("a hash is not 16 digits");
  const auto [end, error] = std::from_chars(text->data(), text->data() + 16, hash, 16);
  if (error != std::errc() || end != text->data() + 16) return damaged("a hash is not hexadecimal");
  return hash;
}

Result<ManifestFile> parse_file(const json::Value& object) {
  ManifestFile file;
  SHARDKIT_ASSIGN(file.name, text_member(object, "name"));
  SHARDKIT_ASSIGN(file.bytes, number_member(object, "bytes"));
  // Names a file below the folder, and no other.
  const std::string resolved = resolved_path(join_path("/x", file.name));
  if (file.name.empty() || file.name.front() == '/' || !is_within(resolved, "/x"))
    return Error(ErrorCode::kUnsafe, "a manifest names a file outside its folder").found(file.name);
  const json::Value* hashes = object.find("xxh3_64");
  const auto* list = hashes != nullptr ? hashes->get_if<json::Array>() : nullptr;
  if (list == nullptr) return damaged("a file has no hashes");
  for (const json::Value& item : list->items) {
    SHARDKIT_ASSIGN(const std::uint64_t hash, parse_hash(item));
    file.hashes.push_back(hash);
  }
  if (file.hashes.size() != file.bytes / kBlockBytes + (file.bytes % kBlockBytes != 0))
    return damaged("a file's hashes do not fit its size");
  return file;
}

Result<LoraChoice> parse_lora_choice(const json::Value& options) {
  LoraChoice choice;
  SHARDKIT_ASSIGN(const std::string mode, text_member(options, "lora"));
  SHARDKIT_ASSIGN(choice.adapter, text_member(options, "adapter"));
  for (const LoraMode value : {LoraMode::kMerge, LoraMode::kAdapterOnly})
    if (mode == to_string(value)) choice.mode = value;
  const json::Value* alpha = options.find("lora_alpha");
  if (const auto* number = alpha != nullptr ? alpha->get_if<double>() : nullptr)
    choice.alpha = *number;
  return choice;
}

Result<OutputChoices> parse_choices(const json::Value& options) {
  OutputChoices choices;
  SHARDKIT_ASSIGN(const std::string dtype, text_member(options, "dtype"));
  SHARDKIT_ASSIGN(choices.dtype, hf::parse_dtype_choice(dtype));
  if (const json::Value* patterns = options.find("keep_dtype"))
    if (const auto* list = patterns->get_if<json::Array>())
      for (const json::Value& item : list->items)
        if (const auto* pattern = item.get_if<std::string>())
          choices.dtype.keep.push_back(*pattern);
  SHARDKIT_ASSIGN(choices.max_shard_bytes, number_member(options, "max_shard_bytes"));
  SHARDKIT_ASSIGN(const std::string replicas, text_member(options, "replicas"));
  SHARDKIT_ASSIGN(const std::string plain, text_member(options, "plain_tensors"));
  choices.replicas = replicas == "first" ? ReplicaPolicy::kFirst : ReplicaPolicy::kCompare;
  for (const PlainTensors value : {PlainTensors::kReplicate, PlainTensors::kConcat})
    if (plain == plain_text(value)) choices.plain = value;
  const json::Value* keep = options.find("keep_tied");
  if (const auto* flag = keep != nullptr ? keep->get_if<bool>() : nullptr)
    choices.keep_tied = *flag;
  if (options.find("lora") != nullptr) {
    SHARDKIT_ASSIGN(choices.lora, parse_lora_choice(options));
  }
  return choices;
}

}  // namespace

std::string manifest_text(const MergeSource& source, const OutputDecision& decision,
                          const std::vector<ManifestFile>& files) {
  ManifestWriter writer;
  writer.member("shardkit_version", compact(json::Value(version())));
  writer.member("options", compact(options_object(decision)));
  writer.member("world_size", std::to_string(source.catalog->world_size));
  writer.begin_list("sources");
  for (const SourceFile& file : source.catalog->files) writer.entry(source_object(file));
  writer.end_list();
  writer.member("block_bytes", std::to_string(kBlockBytes));
  writer.begin_list("files");
  for (const ManifestFile& file : files) writer.entry(file_object(file));
  writer.end_list();
  writer.begin_list("tensors");
  for (const PlannedFile& file : decision.output.plan.files())
    for (const PlannedTensor& step : file.tensors)
      writer.entry(
          tensor_object(decision.output.plan.catalog().tensors[step.tensor], step, file.name));
  writer.end_list();
  writer.member("dropped_ties", compact(text_array(decision.dropped_ties)));
  if (decision.lora) writer.member("lora", compact(to_json(*decision.lora)));
  if (const std::string unseen = unseen_choices(decision); !unseen.empty())
    writer.member("rows_and_folds", compact(json::Value(unseen)));
  return std::move(writer).finish();
}

Result<Manifest> parse_manifest(std::string_view text) {
  SHARDKIT_ASSIGN(const json::Value root, json::parse(text, {.bytes = kManifestLimit}));
  Manifest manifest;
  SHARDKIT_ASSIGN(manifest.version, text_member(root, "shardkit_version"));
  SHARDKIT_ASSIGN(const std::uint64_t block_bytes, number_member(root, "block_bytes"));
  if (block_bytes != kBlockBytes)
    return Error(ErrorCode::kUnsupported, "a manifest with another block size")
        .expected(std::to_string(kBlockBytes))
        .found(std::to_string(block_bytes));
  const json::Value* options = root.find("options");
  if (options == nullptr) return damaged("'options' is missing");
  SHARDKIT_ASSIGN(manifest.choices, parse_choices(*options));
  const json::Value* files = root.find("files");
  const auto* list = files != nullptr ? files->get_if<json::Array>() : nullptr;
  if (list == nullptr) return damaged("'files' is missing or no list");
  for (const json::Value& item : list->items) {
    SHARDKIT_ASSIGN(ManifestFile file, parse_file(item));
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

std::string merge_identity(const MergeSource& source, const OutputDecision& decision) {
  json::Array inputs;
  for (const SourceFile& file : source.catalog->files) {
    json::Object object = source_object(file);
    object.add("path", resolved_path(file.path));
    inputs.items.emplace_back(std::move(object));
  }
  json::Array sidecars;
  for (const hf::SidecarFile& file : source.sidecars) {
    json::Object object;
    object.add("path", resolved_path(join_path(*source.hf_folder, file.path)));
    object.add("bytes", file.bytes);
    object.add("modified_ns", file.modified_ns);
    sidecars.items.emplace_back(std::move(object));
  }
  json::Array heads;
  for (const PlannedFile& file : decision.output.plan.files()) {
    const std::string text = file.head + row_orders(decision.output.plan.catalog(), file);
    const std::uint64_t hash = block_hash(std::as_bytes(std::span(text)));
    heads.items.emplace_back(fmt::format("{} {} {}", file.name, file.bytes, hash_text(hash)));
  }
  json::Object identity;
  identity.add("shardkit_version", version());
  identity.add("options", options_object(decision));
  if (decision.lora) identity.add("lora", lora_hash(decision));
  identity.add("inputs", std::move(inputs));
  identity.add("sidecars", std::move(sidecars));
  identity.add("files", std::move(heads));
  return compact(std::move(identity));
}

}  // namespace shardkit

// LoraSummary: what is known of a checkpoint's adapter, and what became of it; for reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/json/value.h"
#include "shardkit/merge/lora_adapter.h"

namespace shardkit {

struct LoraSummary {
  LoraMode mode = LoraMode::kAdapter;  ///< that was carried out
  std::string adapter;                 ///< its name; empty where names have none
  std::size_t modules = 0;
  std::vector<std::int64_t> ranks;  ///< that occur, ascending
  std::optional<double> alpha;
  std::string alpha_source;  ///< name of a file, or an option; empty where unknown
  bool rslora = false;
  bool dora = false;
  std::vector<std::string> targets;     ///< as target_modules names them
  std::vector<std::string> parameters;  ///< as target_parameters names them
  std::vector<std::string> copies;      ///< modules with a trained copy, named likewise
};

/// Members: mode, adapter, modules, ranks, lora_alpha (null: unknown), lora_alpha_from, rslora,
/// dora, target_modules, target_parameters (if any), modules_to_save.
json::Object to_json(const LoraSummary& lora);

/// "14 modules of rank 8, lora_alpha 16 (lora_train_meta.json), on q_proj, v_proj": for people.
std::string to_string(const LoraSummary& lora);

}  // namespace shardkit

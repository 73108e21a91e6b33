// FQN: the fully qualified name of a parameter, without the names of wrappers around its modules.
#pragma once

#include <string>
#include <string_view>

namespace shardkit {

/// Takes wrapper names off, as whole components: `_orig_mod` (torch.compile),
/// `_fsdp_wrapped_module` (FSDP1) and `_checkpoint_wrapped_module` (activation checkpointing)
/// anywhere, and `module` (DDP) in front only.
///
/// "module._orig_mod.model.norm.weight" becomes "model.norm.weight". A name of wrappers alone is
/// kept as it is.
std::string clean_fqn(std::string_view name);

}  // namespace shardkit

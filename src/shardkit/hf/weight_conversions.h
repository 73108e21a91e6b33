// What transformers 5 saves in other tensors, or under other names, than it holds: a table.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace shardkit::hf {

/// Names of a rule that are used; the first is never empty.
inline constexpr std::size_t kMostRuleNames = 4;

/// One step of save_pretrained (transformers 5.24, core_model_loading.py,
/// revert_weight_conversion).
///
/// A rule looks for `held` in a tensor's name: anywhere, or at the start where it begins with '^';
/// where its last character is a letter or digit, the name ends there or goes on with another kind
/// of character. What stands before and after in the name stays. In the `held` of a rename, '#'
/// stands for digits and '*' for any characters, at least one; in its `saved` for the same ones.
struct SaveRule {
  enum class Change {
    kRename,     ///< held[0] becomes saved[0]
    kUnstack,    ///< the entries of dimension 0, numbered at the '*' of each of `saved`, which
                 ///< share dimension 1 of held[0] evenly (Chunk, then SplitModulelist). The
                 ///< numbers of held[1]'s entries go on where those of held[0] end
    kChunk,      ///< `saved` share dimension 0 of held[0] as torch.chunk does: the last gets less
    kJoin,       ///< all of `held`, one after another on dimension 0, become saved[0]
    kTranspose,  ///< a matrix
  };

  Change change = Change::kRename;
  std::string_view held[kMostRuleNames];
  std::string_view saved[kMostRuleNames];
};

/// How a family of models is saved.
struct SaveFamily {
  /// A class in `architectures`, or a model_type; the class counts where both are listed. Behind a
  /// model_type, " backbone" or " model" stands for the class that AutoBackbone or AutoModel takes.
  std::string_view name;
  std::span<const SaveRule> conversions;  ///< at most the first that fits a tensor is done
  std::span<const SaveRule> renames;      ///< then all that fit, one after another
  /// What transformers does besides and is not done here; empty: nothing.
  std::string_view not_done;
  /// The entry of the model inside, without a head, whose rules come first; empty: none.
  std::string_view inside = {};
  std::string_view inside_prefix = {};  ///< of the names of its tensors
};

/// The entry of a class or model type; null where there is none.
const SaveFamily* find_save_family(std::string_view name);

}  // namespace shardkit::hf

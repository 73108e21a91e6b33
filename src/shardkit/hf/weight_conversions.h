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
    kRename,      ///< held[0] becomes saved[0]
    kUnstack,     ///< the entries of dimension 0, numbered at the '*' of each of `saved`, which
                  ///< share dimension 1 of held[0] evenly (Chunk, then SplitModulelist). The
                  ///< numbers of held[1]'s entries go on where those of held[0] end
    kChunk,       ///< `saved` share dimension `dim` of held[0] as torch.chunk does: the last gets
                  ///< less
    kShards,      ///< as many as config.json's split_ngram_parts share dimension 0 of held[0],
                  ///< numbered at the '*' of saved[0]
    kJoin,        ///< all of `held`, one after another on dimension 0, become saved[0]
    kJoinHeads,   ///< so, too; but in each head of the first two of `held`, rows of the first half
                  ///< and of the second alternate (PermuteForRope). How many heads: `heads_of`
    kInterleave,  ///< in dimension `dim` of held[0], entries of its halves alternate, or those of
                  ///< held[0] and held[1], and become saved[0]
    kTranspose,   ///< the last two dimensions are exchanged
    kPairs,       ///< of held[0] [n, 4, size], entries 0 and 3 of dimension 1 become saved[0]
                  ///< [2 n, size], 1 and 2 saved[1] (Inkling2LoopMergeMessageQueries)
  };

  Change change = Change::kRename;
  std::string_view held[kMostRuleNames];
  std::string_view saved[kMostRuleNames];
  std::size_t dim = 0;
  /// The member of config.json with num_attention_heads; empty: what configures the family.
  std::string_view heads_of = {};
  bool minus_one = false;  ///< the number that '#' stands for is one less in the saved name
};

/// How a family of models is saved.
struct SaveFamily {
  /// A class in `architectures`, or a model_type; the class counts where both are listed. Behind a
  /// model_type, " backbone" or " model" stands for the class that AutoBackbone or AutoModel takes.
  std::string_view name;
  std::span<const SaveRule> conversions;  ///< at most the first that fits a tensor is done
  std::span<const SaveRule> renames;      ///< then all that fit, one after another
  /// The entry of the model inside, without a head, whose rules come first; empty: none.
  std::string_view inside = {};
  std::string_view inside_prefix = {};  ///< of the names of its tensors
};

/// The entry of a class or model type; null where there is none.
const SaveFamily* find_save_family(std::string_view name);

}  // namespace shardkit::hf

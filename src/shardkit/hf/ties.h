// Tied word embeddings: which tensor is only another name of which.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "shardkit/hf/config.h"

namespace shardkit::hf {

struct TiedPair {
  std::string canonical;  ///< stays in the file
  std::string alias;      ///< transformers leaves it out when both are equal
};

/// Pairs of names that the model ties, by `_tied_weights_keys` of transformers' classes. Whether
/// the two tensors are equal is the caller's to check. None where ties_word_embeddings() is false.
///
/// @param names names of the state dict, without wrapper parts; only pairs with both in it are
///              returned, in the order of their aliases in `names`
std::vector<TiedPair> tied_pairs(const ModelConfig& config, std::span<const std::string> names);

/// The pairs of which `names` has the canonical tensor alone, as a saved model has it: a loader
/// makes the other of it. None of a class that has no output embedding, such as a classifier.
std::vector<TiedPair> ties_left_out(const ModelConfig& config, std::span<const std::string> names);

}  // namespace shardkit::hf

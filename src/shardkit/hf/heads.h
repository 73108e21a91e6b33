// Heads of critics and reward models, and whether the class in config.json has them.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "shardkit/hf/config.h"

namespace shardkit::hf {

/// What a person should know where the weights and the first of `architectures` contradict each
/// other: a classifier's head under a class of language models, which leaves it out on loading, or
/// a classifier's class without a head, which makes one at random. Nothing where they agree, or
/// where the class is not known to have either.
///
/// Heads: score (transformers 5.24, modeling_layers.py, GenericForSequenceClassification and
/// GenericForTokenClassification), classifier. trl's v_head beside a language model's class is
/// right (trl 0.24, models/modeling_base.py).
/// @param names  of the tensors, as they are written
std::optional<std::string> head_warning(const ModelConfig& config,
                                        std::span<const std::string> names);

}  // namespace shardkit::hf

// check_config(): whether the tensors can be those of the model that config.json describes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/hf/config.h"

namespace shardkit {

/// Whether the names are those of a model's own parameters.
/// @error kUnsupported FSDP1's flat parameters, which say neither names nor shapes of what they
/// hold
Status check_names(std::span<const CatalogTensor> tensors);

/// What the config and the tensors disagree on and is no error, for people.
struct ConfigFindings {
  std::vector<std::string> notes;
  std::vector<std::string> warnings;
};

/// Compares shapes with what the config implies (hf/implied_shapes.h), the rows of the embeddings
/// with the vocabulary, the layers and the experts of each with their number, and an output
/// embedding that is not there with the tie.
///
/// Refused is what a loader would have to make up: fewer rows than the vocabulary, other shapes of
/// layers, experts that are not there; of a known family (hf::has_like_layers) also a layer that is
/// not there or lacks what others have, the final norm, the embedding, the lm_head of a causal
/// decoder that ties none. More rows, layers or experts than the config says are told, and so are
/// layers of other families that are not there. Of a quantized model, whose shapes its method
/// decides, only layers and experts are looked at.
///
/// @param tensors  all of the checkpoint
/// @error kIncomplete, naming the tensor, what the config implies and what was found
Result<ConfigFindings> check_config(const hf::ModelConfig& config,
                                    std::span<const CatalogTensor> tensors);

}  // namespace shardkit

// The tensors that transformers' save_pretrained makes of those of a state dict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shardkit/base/dims.h"
#include "shardkit/base/result.h"
#include "shardkit/hf/config.h"
#include "shardkit/layout/box.h"

namespace shardkit::hf {

/// A tensor of the state dict.
struct HeldTensor {
  std::string name;  ///< without wrapper parts
  Dims shape;
};

/// A box of a held tensor.
struct SavedPart {
  std::size_t held = 0;  ///< index into the state dict
  Box box;
};

/// A tensor of the file: its parts, one after another on its first dimension.
struct SavedTensor {
  std::string name;
  Dims shape;
  std::vector<SavedPart> parts;
  /// Dimension 0 of the held tensor, of which the box has one index, is left out.
  bool is_entry = false;
  bool is_transposed = false;  ///< a matrix whose dimensions are those of the held one, exchanged
};

struct SavedForm {
  /// In the order of save_pretrained. Not set: as the state dict has them, names and order.
  std::optional<std::vector<SavedTensor>> tensors;
  std::vector<std::string> notes;
  std::vector<std::string> warnings;  ///< what may be saved in another form than a loader expects
};

/// By the families of the model's class, model type and text model: hf/weight_conversions.h. With
/// any family that changes something, tensors come in the natural order of their names, as
/// transformers then sorts them; else nothing changes, order included.
///
/// Tensors that have the saved form already, as those of transformers 4 have, stay as they are, with
/// a note. Experts that no entry explains, fused or under other names, stay, too, and are warned of.
///
/// @param config  null: there is none, so that nothing is known of the model
/// @error kCorrupt      two tensors would be saved under one name
/// @error kIncomplete   a tensor that is to be joined with others lacks them
Result<SavedForm> saved_form(const ModelConfig* config, std::span<const HeldTensor> held);

}  // namespace shardkit::hf

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

/// A box of a held tensor, and how it lies in the saved one.
struct SavedPart {
  std::size_t held = 0;  ///< index into the state dict
  Box box;
  /// The box's dimension `split` is looked at as these, whose product it is. Empty: as it is.
  Dims factors = {};
  std::size_t split = 0;
  /// Which of the dimensions so far comes at each place. Empty: each at its own.
  Dims order = {};
};

/// A tensor of the file: its parts, one after another on a dimension.
struct SavedTensor {
  std::string name;
  Dims shape;
  std::vector<SavedPart> parts;
  /// Dimension 0 of the held tensor, of which the box has one index, is left out.
  bool is_entry = false;
  /// The shape with more dimensions, in which the parts lie: the same elements in the same order.
  /// Empty: the shape.
  Dims view = {};
  std::size_t along = 0;  ///< the dimension of the view on which the parts follow each other
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
/// Tensors that have the saved form already, as those of transformers 4 have, stay as they are,
/// with a note. Experts that no entry explains, fused or under other names, stay, too, and are
/// warned of.
///
/// @param config  null: there is none, so that nothing is known of the model
/// @error kCorrupt      two tensors would be saved under one name
/// @error kIncomplete   a tensor that is to be joined with others lacks them
/// @error kUnsupported  the heads of a tensor, or what it is to be cut into, are not known
Result<SavedForm> saved_form(const ModelConfig* config, std::span<const HeldTensor> held);

}  // namespace shardkit::hf

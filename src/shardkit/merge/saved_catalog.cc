#include "shardkit/merge/saved_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "shardkit/hf/saved_form.h"
#include "shardkit/plan/plan.h"

namespace shardkit {
namespace {

/// Without dimension 0.
Dims without_first(const Dims& dims) {
  return Dims(std::span<const std::int64_t>(dims.begin() + 1, dims.end()));
}

/// Cheap: most pieces of a tensor of many experts share nothing with one of them.
bool misses_rows(const Box& a, const Box& b) {
  if (a.offset.empty()) return false;
  return a.offset[0] + a.shape[0] <= b.offset[0] || b.offset[0] + b.shape[0] <= a.offset[0];
}

/// What a piece holds of a part, at its place in the saved tensor.
/// @param row  where the part begins on the saved tensor's first dimension
std::optional<Piece> piece_of_part(const Piece& piece, const Box& part, std::int64_t row,
                                   const hf::SavedTensor& form) {
  if (misses_rows(piece.box, part)) return std::nullopt;
  const auto common = intersect(piece.box, part);
  if (!common) return std::nullopt;
  Piece made = piece;
  for (std::size_t d = 0; d < common->offset.size(); ++d)
    made.offset += (common->offset[d] - piece.box.offset[d]) * piece.strides[d];
  made.box = *common;
  for (std::size_t d = 0; d < part.offset.size(); ++d) made.box.offset[d] -= part.offset[d];
  if (form.is_transposed) {
    for (Dims* dims : {&made.box.offset, &made.box.shape, &made.strides})
      std::reverse(dims->begin(), dims->end());
  } else if (form.is_entry) {
    made.box = {without_first(made.box.offset), without_first(made.box.shape)};
    made.strides = without_first(made.strides);
  } else if (!made.box.offset.empty()) {
    made.box.offset[0] += row;
  }
  return made;
}

bool comes_before(const Piece& a, const Piece& b) {
  if (a.replica != b.replica) return a.replica < b.replica;
  if (a.addend != b.addend) return a.addend < b.addend;
  return std::lexicographical_compare(a.box.offset.begin(), a.box.offset.end(),
                                      b.box.offset.begin(), b.box.offset.end());
}

bool share_layers(const CatalogTensor& a, const CatalogTensor& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.reduction == b.reduction &&
         a.divisor == b.divisor && a.addends == b.addends && a.replicas == b.replicas;
}

/// Whether a held tensor is saved whole, under its name or another.
bool is_whole(const hf::SavedTensor& form) {
  return form.parts.size() == 1 && !form.is_entry && !form.is_transposed;
}

/// What is folded into a tensor that is cut from a folded one in whole rows; null: it is no such.
std::shared_ptr<const Fold> cut_fold(const CatalogTensor& held, const hf::SavedTensor& form) {
  const Box& box = form.parts[0].box;
  const Fold& fold = *held.fold;
  if (form.parts.size() > 1 || form.is_transposed || fold.first_row || fold.expert) return nullptr;
  const std::size_t row_dim = form.is_entry ? 1 : 0;
  if (form.is_entry != (fold.experts > 0) || box.shape.size() <= row_dim) return nullptr;
  for (std::size_t d = row_dim + 1; d < box.shape.size(); ++d)
    if (box.shape[d] != held.shape[d]) return nullptr;
  Fold cut = fold;
  if (form.is_entry) cut.expert = box.offset[0];
  cut.first_row = box.offset[row_dim];
  return std::make_shared<const Fold>(std::move(cut));
}

Result<CatalogTensor> make_tensor(const Catalog& catalog, hf::SavedTensor form) {
  const CatalogTensor& first = catalog.tensors[form.parts[0].held];
  CatalogTensor tensor;
  tensor.name = std::move(form.name);
  tensor.kind = first.kind;
  tensor.dtype = first.dtype;
  tensor.shape = std::move(form.shape);
  tensor.sharding = first.sharding;
  tensor.reduction = first.reduction;
  tensor.divisor = first.divisor;
  tensor.addends = first.addends;
  tensor.replicas = first.replicas;
  tensor.concatenated = first.concatenated;
  tensor.guessed = first.guessed;
  if (tensor.name != first.name) tensor.made_of = first.name;
  if (is_whole(form) && tensor.shape == first.shape) tensor.fold = first.fold;
  else if (first.fold) tensor.fold = cut_fold(first, form);
  std::int64_t row = 0;
  for (const hf::SavedPart& part : form.parts) {
    const CatalogTensor& held = catalog.tensors[part.held];
    if (held.fold && !tensor.fold)
      return Error(ErrorCode::kUnsupported,
                   "an adapter cannot be folded into a tensor that transformers saves in other parts")
          .of_tensor(held.name);
    if (!share_layers(held, first))
      return Error(ErrorCode::kUnsupported,
                   "tensors that transformers saves as one differ in dtype, replicas or addends")
          .of_tensor(tensor.name)
          .expected(fmt::format("as of '{}'", first.name))
          .found(fmt::format("'{}'", held.name));
    for (const Piece& piece : held.pieces)
      if (auto made = piece_of_part(piece, part.box, row, form))
        tensor.pieces.push_back(*std::move(made));
    if (!part.box.shape.empty()) row += part.box.shape[0];
  }
  std::stable_sort(tensor.pieces.begin(), tensor.pieces.end(), comes_before);
  return tensor;
}

std::string note_of(const Catalog& held, const std::vector<hf::SavedTensor>& forms) {
  std::size_t renamed = 0;
  std::size_t made = 0;
  for (const hf::SavedTensor& form : forms) {
    const CatalogTensor& tensor = held.tensors[form.parts[0].held];
    if (!is_whole(form) || form.shape != tensor.shape) ++made;
    else if (form.name != tensor.name) ++renamed;
  }
  if (made + renamed == 0) return {};
  return fmt::format("as transformers saves this model: {} tensors cut from or joined of others, "
                     "{} under another name", made, renamed);
}

}  // namespace

Result<SavedCatalog> saved_catalog(const MergeSource& source, std::vector<bool> dropped) {
  const Catalog& held = *source.catalog;
  std::vector<hf::HeldTensor> names;
  names.reserve(held.tensors.size());
  for (const CatalogTensor& tensor : held.tensors) {
    // Believed before names are made of its rows.
    if (tensor.shape.size() > 2) SHARDKIT_TRY(prove_whole(tensor));
    names.push_back({tensor.name, tensor.shape});
  }
  SHARDKIT_ASSIGN(hf::SavedForm form,
                  hf::saved_form(source.config ? &*source.config : nullptr, names));
  SavedCatalog saved{source.catalog, std::move(dropped), std::move(form.notes),
                     std::move(form.warnings)};
  if (!form.tensors) return saved;
  if (std::string note = note_of(held, *form.tensors); !note.empty())
    saved.notes.push_back(std::move(note));
  Catalog catalog;
  catalog.world_size = held.world_size;
  catalog.files = held.files;
  catalog.skipped = held.skipped;
  catalog.warnings = held.warnings;
  std::vector<bool> saved_dropped;
  for (hf::SavedTensor& tensor : *form.tensors) {
    saved_dropped.push_back(saved.dropped[tensor.parts[0].held]);
    SHARDKIT_ASSIGN(CatalogTensor made, make_tensor(held, std::move(tensor)));
    catalog.tensors.push_back(std::move(made));
  }
  saved.catalog = std::make_shared<const Catalog>(std::move(catalog));
  saved.dropped = std::move(saved_dropped);
  return saved;
}

}  // namespace shardkit

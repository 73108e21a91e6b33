#include "shardkit/merge/saved_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/hf/saved_form.h"
#include "shardkit/plan/plan.h"
#include "shardkit/transfer/element_range.h"

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

/// Exchanges the dimensions of a piece: `order[i]` comes at place i.
void reorder(Piece& piece, const Dims& order) {
  const Piece before = piece;
  for (std::size_t d = 0; d < order.size(); ++d) {
    const auto from = static_cast<std::size_t>(order[d]);
    piece.box.offset[d] = before.box.offset[from];
    piece.box.shape[d] = before.box.shape[from];
    piece.strides[d] = before.strides[from];
  }
}

/// `dims` with its dimension `at` replaced by these.
Dims with_factors(const Dims& dims, std::size_t at, const Dims& factors) {
  std::vector<std::int64_t> sizes(dims.begin(), dims.begin() + at);
  sizes.insert(sizes.end(), factors.begin(), factors.end());
  sizes.insert(sizes.end(), dims.begin() + at + 1, dims.end());
  return Dims(std::span<const std::int64_t>(sizes));
}

/// A piece as boxes of more dimensions: its interval of the dimension that is split begins and ends
/// anywhere in them.
std::vector<Piece> split(const Piece& piece, const hf::SavedPart& part) {
  const std::size_t dim = part.split;
  const Dims strides = contiguous_strides(part.factors);
  const std::int64_t begin = piece.box.offset[dim];
  std::vector<Piece> pieces;
  for (const Box& box : boxes_of_range(part.factors, begin, begin + piece.box.shape[dim])) {
    Piece made = piece;
    made.offset += (position_of(box.offset, strides) - begin) * piece.strides[dim];
    made.box = {with_factors(piece.box.offset, dim, box.offset),
                with_factors(piece.box.shape, dim, box.shape)};
    Dims steps = strides;
    // Where this overflows, the piece has one row, whose stride may be any number.
    for (std::int64_t& step : steps) step = checked_mul(step, piece.strides[dim]).value_or(0);
    made.strides = with_factors(piece.strides, dim, steps);
    pieces.push_back(std::move(made));
  }
  return pieces;
}

/// What a piece holds of a part, at its place in the saved tensor's view.
/// @param start  where the part begins on the dimension `along`
void append_pieces(const Piece& piece, const hf::SavedPart& part, std::int64_t start,
                   const hf::SavedTensor& form, std::vector<Piece>& pieces) {
  if (misses_rows(piece.box, part.box)) return;
  const auto common = intersect(piece.box, part.box);
  if (!common) return;
  Piece made = piece;
  for (std::size_t d = 0; d < common->offset.size(); ++d)
    made.offset += (common->offset[d] - piece.box.offset[d]) * piece.strides[d];
  made.box = *common;
  for (std::size_t d = 0; d < part.box.offset.size(); ++d) made.box.offset[d] -= part.box.offset[d];
  if (form.is_entry) {
    made.box = {without_first(made.box.offset), without_first(made.box.shape)};
    made.strides = without_first(made.strides);
    pieces.push_back(std::move(made));
    return;
  }
  std::vector<Piece> all;
  if (part.factors.empty())
    all.push_back(std::move(made));
  else
    all = split(made, part);
  for (Piece& one : all) {
    if (!part.order.empty()) reorder(one, part.order);
    if (!one.box.offset.empty()) one.box.offset[form.along] += start;
    pieces.push_back(std::move(one));
  }
}

/// How much of the dimension `along` of the view a part takes.
std::int64_t extent(const hf::SavedPart& part, std::size_t along) {
  if (part.box.shape.empty()) return 0;
  const Dims sizes = part.factors.empty() ? part.box.shape
                                          : with_factors(part.box.shape, part.split, part.factors);
  return sizes[part.order.empty() ? along : static_cast<std::size_t>(part.order[along])];
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
  return form.parts.size() == 1 && !form.is_entry && form.view.empty() &&
         form.parts[0].order.empty();
}

/// What is folded into a tensor that is cut from a folded one in whole rows; null: it is no such.
std::shared_ptr<const Fold> cut_fold(const CatalogTensor& held, const hf::SavedTensor& form) {
  const Box& box = form.parts[0].box;
  const Fold& fold = *held.fold;
  const bool is_reordered = !form.view.empty() || !form.parts[0].order.empty();
  if (form.parts.size() > 1 || is_reordered || fold.first_row || fold.expert) return nullptr;
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
  if (form.view.empty()) {
    tensor.shape = form.shape;
  } else {
    tensor.shape = form.view;
    tensor.written_shape = form.shape;
  }
  tensor.sharding = first.sharding;
  tensor.reduction = first.reduction;
  tensor.divisor = first.divisor;
  tensor.addends = first.addends;
  tensor.replicas = first.replicas;
  tensor.concatenated = first.concatenated;
  tensor.guessed = first.guessed;
  if (tensor.name != first.name) tensor.made_of = first.name;
  if (is_whole(form) && tensor.shape == first.shape)
    tensor.fold = first.fold;
  else if (first.fold)
    tensor.fold = cut_fold(first, form);
  std::int64_t start = 0;
  for (const hf::SavedPart& part : form.parts) {
    const CatalogTensor& held = catalog.tensors[part.held];
    if (held.fold && !tensor.fold)
      return Error(
                 ErrorCode::kUnsupported,
                 "an adapter cannot be folded into a tensor that transformers saves in other parts")
          .of_tensor(held.name);
    if (!share_layers(held, first))
      return Error(ErrorCode::kUnsupported,
                   "tensors that transformers saves as one differ in dtype, replicas or addends")
          .of_tensor(tensor.name)
          .expected(fmt::format("as of '{}'", first.name))
          .found(fmt::format("'{}'", held.name));
    for (const Piece& piece : held.pieces) append_pieces(piece, part, start, form, tensor.pieces);
    start += extent(part, form.along);
  }
  std::stable_sort(tensor.pieces.begin(), tensor.pieces.end(), comes_before);
  return tensor;
}

std::string note_of(const Catalog& held, const std::vector<hf::SavedTensor>& forms) {
  std::size_t renamed = 0;
  std::size_t made = 0;
  for (const hf::SavedTensor& form : forms) {
    const CatalogTensor& tensor = held.tensors[form.parts[0].held];
    if (!is_whole(form) || form.shape != tensor.shape)
      ++made;
    else if (form.name != tensor.name)
      ++renamed;
  }
  if (made + renamed == 0) return {};
  return fmt::format(
      "as transformers saves this model: {} tensors cut from or joined of others, "
      "{} under another name",
      made, renamed);
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

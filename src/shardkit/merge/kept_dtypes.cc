#include "shardkit/merge/kept_dtypes.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardkit/hf/name_pattern.h"

namespace shardkit {
namespace {

std::size_t count_fitting(std::span<const CatalogTensor> tensors, std::string_view pattern) {
  return static_cast<std::size_t>(
      std::count_if(tensors.begin(), tensors.end(),
                    [pattern](const CatalogTensor& t) { return hf::matches(pattern, t.name); }));
}

void tell_patterns(const Catalog& catalog, std::span<const CatalogTensor> adapter,
                   const std::vector<std::string>& patterns, std::vector<std::string>& notes,
                   std::vector<std::string>& warnings) {
  for (const std::string& pattern : patterns) {
    const std::size_t count =
        count_fitting(catalog.tensors, pattern) + count_fitting(adapter, pattern);
    if (count == 0) {
      warnings.push_back(fmt::format("--keep-dtype '{}' fits the name of no tensor", pattern));
    } else {
      notes.push_back(fmt::format("{} tensors keep their dtype by '{}'", count, pattern));
    }
  }
}

/// Quantized weights are no plain floats: 8-bit floats, or integers that hold several values, or
/// those of bitsandbytes, which under FSDP lie in the bits of floats.
bool is_quantized(const CatalogTensor& tensor) {
  return hf::is_float8(tensor.dtype) || tensor.dtype == DType::kFloat4E2M1FNx2 ||
         (tensor.shape.size() > 1 && is_integer(tensor.dtype)) ||
         tensor.name.find(".quant_state.") != std::string::npos;
}

}  // namespace

std::size_t keep_float8_scales(const Catalog& catalog, hf::DTypeChoice& choice) {
  const auto float8 =
      std::count_if(catalog.tensors.begin(), catalog.tensors.end(),
                    [](const CatalogTensor& tensor) { return hf::is_float8(tensor.dtype); });
  if (float8 > 0)
    for (const std::string_view pattern : hf::float8_scale_patterns())
      if (std::find(choice.keep.begin(), choice.keep.end(), pattern) == choice.keep.end())
        choice.keep.emplace_back(pattern);
  return static_cast<std::size_t>(float8);
}

void decide_kept_dtypes(const MergeSource& source, const SavedCatalog& saved,
                        std::span<const CatalogTensor> adapter, hf::DTypeChoice& choice,
                        std::vector<std::string>& notes, std::vector<std::string>& warnings) {
  const Catalog& catalog = *saved.catalog;
  tell_patterns(catalog, adapter, choice.keep, notes, warnings);
  const std::size_t float8 = keep_float8_scales(catalog, choice);
  if (float8 > 0) {
    std::size_t scales = 0;
    for (const std::string_view pattern : hf::float8_scale_patterns())
      scales += count_fitting(catalog.tensors, pattern);
    notes.push_back(fmt::format("{} tensors of 8-bit floats and their {} scales stay as stored",
                                float8, scales));
  }
  if (!source.config) return;
  if (float8 > 0 && !source.config->quantized)
    warnings.push_back(fmt::format(
        "{} tensors are 8-bit floats, but config.json has no quantization_config: a loader takes "
        "them for the weights themselves, without their scales",
        float8));
  if (!source.config->quantized) return;
  const auto quantized =
      std::count_if(catalog.tensors.begin(), catalog.tensors.end(), is_quantized);
  if (quantized == 0)
    warnings.emplace_back(
        "config.json has a quantization_config, but no tensor is quantized: a loader looks for "
        "scales that are not there; remove it from config.json");
  const auto cast = std::count_if(
      catalog.tensors.begin(), catalog.tensors.end(), [&choice](const CatalogTensor& tensor) {
        return hf::output_dtype(choice, tensor.name, tensor.dtype) != tensor.dtype;
      });
  if (quantized > 0 && float8 == 0 && cast > 0)
    warnings.push_back(fmt::format(
        "{} tensors are cast beside quantized weights: where scales are among them, the weights "
        "become others; --dtype keep or --keep-dtype leaves them as stored",
        cast));
}

}  // namespace shardkit

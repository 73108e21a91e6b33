// Knows where the parts of models lie.
#include "shardkit/hf/save_scopes.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace shardkit::hf {
namespace {

/// Where a part of a model lies (transformers 5).
struct Place {
  std::string_view member;  ///< of config.json, the part's configuration
  std::string_view prefix;  ///< of the names of its tensors
  /// Behind its model_type, where that has an entry of its own: which class it is made as.
  std::string_view made_as = {};
};

constexpr std::array kPlaces{
    Place{"text_config", "model.language_model."},
    Place{"text_config", "language_model."},
    Place{"text_config", "model.text_model."},
    Place{"text_config", "text_model."},
    Place{"vision_config", "model.vision_tower."},
    Place{"vision_config", "vision_tower."},
    Place{"vision_config", "model.vision_model."},
    Place{"vision_config", "vision_model."},
    Place{"audio_config", "model.audio_tower."},
    Place{"audio_config", "audio_tower."},
    Place{"thinker_config", "thinker."},
    Place{"vlm_config", "model.vlm.", " model"},
    Place{"vlm_config", "vlm.", " model"},
    Place{"codec_config", "codec_model."},
    Place{"tracker_config", "tracker_model."},
    Place{"encoder", "model.encoder."},
    Place{"encoder", "encoder."},
    Place{"decoder", "decoder."},
    Place{"decoder_config", "model.transformer_module.decoder."},
    Place{"decoder_config", "transformer_module.decoder."},
    Place{"backbone_config", "backbone.", " backbone"},
    Place{"backbone_config", "model.backbone.conv_encoder.model.", " backbone"},
    Place{"backbone_config", "backbone.conv_encoder.model.", " backbone"},
    Place{"backbone_config", "model.pixel_level_module.encoder.", " backbone"},
    Place{"backbone_config", "pixel_level_module.encoder.", " backbone"},
    Place{"image_model_config", "depth_pro.encoder.image_encoder.model."},
    Place{"image_model_config", "encoder.image_encoder.model."},
    Place{"patch_model_config", "depth_pro.encoder.patch_encoder.model."},
    Place{"patch_model_config", "encoder.patch_encoder.model."},
    Place{"fov_model_config", "fov_model.fov_encoder.model."},
};

void add_scope(const SaveFamily* family, std::string prefix, std::string_view part,
               std::vector<SaveScope>& scopes) {
  if (family == nullptr) return;
  if (!family->inside.empty())
    add_scope(find_save_family(family->inside), fmt::format("{}{}", prefix, family->inside_prefix),
              part, scopes);
  scopes.push_back({family, std::move(prefix), part});
}

const SaveFamily* family_of_part(const std::string& model_type, const Place& place) {
  const SaveFamily* family = find_save_family(fmt::format("{}{}", model_type, place.made_as));
  return family != nullptr ? family : find_save_family(model_type);
}

}  // namespace

std::optional<std::size_t> SaveScope::prefix_length(std::string_view name) const {
  if (!name.starts_with(prefix)) return std::nullopt;
  return prefix.size();
}

std::vector<SaveScope> save_scopes(const ModelConfig& config) {
  const SaveFamily* family =
      config.architectures.empty() ? nullptr : find_save_family(config.architectures[0]);
  if (family == nullptr) family = find_save_family(config.model_type);
  std::vector<SaveScope> scopes;
  for (const ConfigPart& part_config : config.parts)
    for (const Place& place : kPlaces)
      if (place.member == part_config.name)
        if (const SaveFamily* part = family_of_part(part_config.model_type, place); part != family)
          add_scope(part, std::string(place.prefix), place.member, scopes);
  add_scope(family, {}, {}, scopes);
  return scopes;
}

}  // namespace shardkit::hf

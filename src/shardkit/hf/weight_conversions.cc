// The families, as transformers 5.24 lists them in conversion_mapping.py, turned round.
//
// Keys, patterns and order are those of _build_checkpoint_conversion_mapping() and
// _MODEL_TO_CONVERSION_PATTERN, read from the last entry to the first, since saving undoes them in
// that order. Renames of a prefix that only the start of a name can hold are written with '^', so
// that a checkpoint which has the saved names already keeps them. PrefixChange is left out:
// save_pretrained drops it for models that were not loaded with from_pretrained, as those of a
// trainer's shards. tests/interop/test_weight_conversions.py compares the entries with
// save_pretrained.
#include "shardkit/hf/weight_conversions.h"

#include <algorithm>

#include "shardkit/hf/save_rules_internal.h"

namespace shardkit::hf {

const SaveFamily* find_save_family(std::string_view name) {
  for (const auto families :
       {internal::text_families(), internal::media_families(), internal::reordered_families(),
        internal::vision_families(), internal::detection_families(), internal::sound_families()}) {
    const auto found =
        std::find_if(families.begin(), families.end(),
                     [name](const SaveFamily& family) { return family.name == name; });
    if (found != families.end()) return &*found;
  }
  return nullptr;
}

}  // namespace shardkit::hf

// The natural order of tensor names: layers.2 before layers.10.
#pragma once

#include <string_view>

namespace shardkit::hf {

/// Whether `a` comes before `b` as transformers 5.24 orders names that it converts
/// (core_model_loading.py, dot_natural_key): part by part between dots; numbers first and by their
/// value, then texts without the digits they end with, then those digits by their value.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace shardkit::hf

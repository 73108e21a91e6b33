#include "shardkit/base/dims.h"

namespace shardkit {

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (d > 0) text += ", ";
    text += std::to_string(dims[d]);
  }
  return text + "]";
}

}  // namespace shardkit

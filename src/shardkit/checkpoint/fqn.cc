#include "shardkit/checkpoint/fqn.h"

namespace shardkit {
namespace {

bool is_wrapper(std::string_view component) {
  return component == "_orig_mod" || component == "_fsdp_wrapped_module" ||
         component == "_checkpoint_wrapped_module";
}

}  // namespace

std::string clean_fqn(std::string_view name) {
  std::string clean;
  bool in_front = true;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view component = name.substr(begin, end - begin);
    begin = end + 1;
    if (is_wrapper(component) || (in_front && component == "module")) continue;
    if (!in_front) clean += '.';
    clean += component;
    in_front = false;
  }
  return in_front ? std::string(name) : clean;
}

}  // namespace shardkit

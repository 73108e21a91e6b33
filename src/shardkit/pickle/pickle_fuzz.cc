// Any bytes as a pickle: no crash, and a graph whose every object can be looked at.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "shardkit/pickle/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardkit::pickle;
  const auto allow = [](std::string_view module, std::string_view) { return module != "os"; };
  const auto graph = parse(std::string(reinterpret_cast<const char*>(data), size),
                           {.allow = allow, .max_objects = 1 << 16});
  if (!graph.ok()) return 0;
  const auto look = [&graph, size](ObjectId id) {
    if (graph->offset(id) >= size) std::abort();
    switch (graph->kind(id)) {
      case Kind::kString:
      case Kind::kBytes:
      case Kind::kBigInt:
        if (graph->text(id).size() > 2 * size) std::abort();
        break;
      case Kind::kInt: graph->integer(id); break;
      case Kind::kFloat: graph->real(id); break;
      case Kind::kBool: graph->boolean(id); break;
      case Kind::kGlobal:
        if (graph->global(id).module == "os") std::abort();
        break;
      default: break;
    }
  };
  look(graph->root());
  for (ObjectId id = 0; id < graph->non_leaves(); ++id) {
    look(id);
    switch (graph->kind(id)) {
      case Kind::kCall:
      case Kind::kNew:
        look(graph->construction(id).callee);
        look(graph->construction(id).args);
        [[fallthrough]];
      case Kind::kTuple:
      case Kind::kList:
      case Kind::kSet:
      case Kind::kFrozenSet:
      case Kind::kDict:
        for (const ObjectId item : graph->items(id)) look(item);
        break;
      case Kind::kPersistentId: look(graph->persistent_id(id)); break;
      default: break;
    }
  }
  return 0;
}

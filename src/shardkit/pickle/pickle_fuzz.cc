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
  const auto check = [&graph](ObjectId id) {
    if (id >= graph->size()) std::abort();
  };
  check(graph->root());
  for (ObjectId id = 0; id < graph->size(); ++id) {
    if (graph->offset(id) >= size) std::abort();
    switch (graph->kind(id)) {
      case Kind::kString:
      case Kind::kBytes:
      case Kind::kBigInt:
        if (graph->text(id).size() > 2 * size) std::abort();
        break;
      case Kind::kTuple:
      case Kind::kList:
      case Kind::kSet:
      case Kind::kFrozenSet:
      case Kind::kDict:
        for (const ObjectId item : graph->items(id)) check(item);
        break;
      case Kind::kGlobal:
        if (graph->global(id).module == "os") std::abort();
        break;
      case Kind::kPersistentId: check(graph->persistent_id(id)); break;
      case Kind::kCall:
      case Kind::kNew:
        check(graph->construction(id).callee);
        check(graph->construction(id).args);
        for (const ObjectId item : graph->construction(id).items) check(item);
        break;
      default: break;
    }
  }
  return 0;
}

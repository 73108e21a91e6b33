// Fuzz target: whatever json::parse takes, json::write must turn into text that reads back equal.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "shardkit/json/parse.h"
#include "shardkit/json/patch.h"
#include "shardkit/json/write.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardkit::json;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)parse(text, {.python_numbers = true}).ok();
  const auto document = parse(text);
  if (!document.ok()) return 0;
  for (const WriteStyle style : {WriteStyle::kCompact, WriteStyle::kPretty}) {
    const std::string written = write(*document, style);
    const auto again = parse(written);
    if (!again.ok() || write(*again, style) != written) std::abort();
  }
  const auto* object = document->get_if<Object>();
  if (object == nullptr) return 0;
  for (const auto& member : object->members) {
    const auto patched = replace_member(text, member.first, "[7]");
    if (!patched.ok()) std::abort();
    const auto changed = parse(*patched);
    if (!changed.ok() || changed->find(member.first)->get_if<Array>() == nullptr) std::abort();
  }
  return 0;
}

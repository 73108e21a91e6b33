// Pickles of torch's objects for this room's tests, put together from parts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/pickle/writer.h"
#include "shardkit/testing/bytes_file.h"
#include "shardkit/torch_pt/reader.h"
#include "shardkit/zip/writer.h"

namespace shardkit::pickled {

/// Writes one object.
using Write = std::function<void(pickle::Writer&)>;
using Attributes = std::vector<std::pair<std::string, Write>>;

inline Write text(std::string value) {
  return [value = std::move(value)](pickle::Writer& w) { w.string(value); };
}
inline Write number(std::int64_t value) {
  return [value](pickle::Writer& w) { w.integer(value); };
}
inline Write none() {
  return [](pickle::Writer& w) { w.none(); };
}
inline Write boolean(bool value) {
  return [value](pickle::Writer& w) { w.boolean(value); };
}
inline Write global(std::string module, std::string name) {
  return [=](pickle::Writer& w) { w.global(module, name); };
}
inline Write tuple(std::vector<Write> items) {
  return [items = std::move(items)](pickle::Writer& w) {
    w.mark();
    for (const Write& item : items) item(w);
    w.tuple();
  };
}
inline Write ints(const std::vector<std::int64_t>& values) {
  std::vector<Write> items;
  for (const std::int64_t value : values) items.push_back(number(value));
  return tuple(std::move(items));
}
/// A tuple of one item so many times.
inline Write repeated(Write item, int times) {
  return [item = std::move(item), times](pickle::Writer& w) {
    w.mark();
    item(w);
    const std::uint32_t first = w.put();
    for (int i = 1; i < times; ++i) w.get(first);
    w.tuple();
  };
}
inline Write dict(Attributes items) {
  return [items = std::move(items)](pickle::Writer& w) {
    w.empty_dict();
    w.mark();
    for (const auto& [key, value] : items) {
      w.string(key);
      value(w);
    }
    w.set_items();
  };
}
inline Write instance(std::string module, std::string name, Write state) {
  return [=, state = std::move(state)](pickle::Writer& w) {
    w.global(module, name);
    w.empty_tuple();
    w.new_object();
    state(w);
    w.build();
  };
}
/// An instance whose state is its attributes, as it mostly is.
inline Write object(std::string module, std::string name, Attributes attributes) {
  return instance(std::move(module), std::move(name), dict(std::move(attributes)));
}
inline Write call(std::string module, std::string name, std::vector<Write> args) {
  return [=, args = tuple(std::move(args))](pickle::Writer& w) {
    w.global(module, name);
    args(w);
    w.reduce();
  };
}

/// All of the archive's storage, 48 bytes, or of the meta device.
inline Write storage(std::string type, std::int64_t count, std::string location = "cuda:0") {
  return [id = tuple({text("storage"), global("torch", type), text("0"), text(location),
                      number(count)})](pickle::Writer& w) {
    id(w);
    w.persistent_id();
  };
}
/// A tensor that begins where its storage does.
inline Write tensor(Write storage, const std::vector<std::int64_t>& size,
                    const std::vector<std::int64_t>& stride) {
  return call("torch._utils", "_rebuild_tensor_v2",
              {std::move(storage), number(0), ints(size), ints(stride), boolean(false), none()});
}
inline Write floats(const std::vector<std::int64_t>& size,
                    const std::vector<std::int64_t>& stride) {
  return tensor(storage("FloatStorage", 12), size, stride);
}
/// A tensor subclass that wraps others, which lie in its state.
inline Write wrapper(const Write& type, const std::vector<std::int64_t>& size,
                     const std::vector<std::int64_t>& stride, Write state) {
  return call("torch._tensor", "_rebuild_from_type_v2",
              {global("torch._utils", "_rebuild_wrapper_subclass"), type,
               tuple({type, global("torch", "float32"), ints(size), ints(stride), number(0), none(),
                      none(), boolean(false)}),
               std::move(state)});
}

/// Reads an archive of this pickle and one storage of 48 bytes.
inline Result<PtFile> read(const Write& root) {
  pickle::Writer w;
  root(w);
  testing::BytesOutput file;
  zip::Writer writer(file);
  writer.add("archive/data.pkl", std::move(w).finish()).value();
  writer.add("archive/data/0", std::string(48, 'x')).value();
  writer.finish().value();
  return read_pt(testing::BytesFile(file.bytes(), "made.pt"));
}

}  // namespace shardkit::pickled

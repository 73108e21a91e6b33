// Similarity and equality of trees.
#include "shardkit/state/compare.h"

#include <fmt/format.h>

#include <cstring>

#include "shardkit/state/memory.h"
#include "shardkit/state/pair_walk_internal.h"

namespace shardkit {
namespace {

using internal::PairWalk;

class Similarity : public PairWalk {
 protected:
  bool leaf(const Value& a, const Value& b) override {
    if (kind_name(a) != kind_name(b))
      return differ(fmt::format("{} against {}", kind_name(a), kind_name(b)));
    if (is_tensor(a)) {
      auto what = internal::form_difference(a, b);
      return what ? differ(*std::move(what)) : true;
    }
    const auto* object = a.get_if<Opaque>();
    if (!object) return true;
    const auto& other = *b.get_if<Opaque>();
    if (object->class_name != other.class_name)
      return differ(fmt::format("{} against {}", object->class_name, other.class_name));
    return walk_items(object->state, other.state);
  }
};

// The first index at which two views of one shape and dtype hold other bytes.
std::optional<Dims> first_other_element(const Tensor& a, const std::byte* at_a, const Tensor& b,
                                        const std::byte* at_b) {
  const std::int64_t item = item_bytes(a.dtype);
  const std::int64_t numel = a.numel();
  if (numel == 0) return std::nullopt;
  // A whole tensor or a last dimension without gaps is one comparison; only a run that differs is
  // looked at element by element.
  const std::size_t rank = a.shape.size();
  std::int64_t run = 1;
  std::size_t outer = rank;
  if (is_contiguous(a) && is_contiguous(b)) {
    run = numel;
    outer = 0;
  } else if (a.strides[rank - 1] == 1 && b.strides[rank - 1] == 1) {
    run = a.shape[rank - 1];
    outer = rank - 1;
  }
  Dims index(rank, 0);
  while (true) {
    std::int64_t of_a = 0;
    std::int64_t of_b = 0;
    for (std::size_t d = 0; d < outer; ++d) {
      of_a += index[d] * a.strides[d];
      of_b += index[d] * b.strides[d];
    }
    const std::byte* run_a = at_a + of_a * item;
    const std::byte* run_b = at_b + of_b * item;
    if (std::memcmp(run_a, run_b, static_cast<std::size_t>(run * item)) != 0) {
      std::int64_t i = 0;
      while (std::memcmp(run_a + i * item, run_b + i * item, static_cast<std::size_t>(item)) == 0)
        ++i;
      for (std::size_t d = rank; d-- > outer;) {
        index[d] = i % a.shape[d];
        i /= a.shape[d];
      }
      return index;
    }
    std::size_t d = outer;
    while (d > 0 && ++index[d - 1] == a.shape[d - 1]) index[--d] = 0;
    if (d == 0) return std::nullopt;
  }
}

class Equality : public PairWalk {
 public:
  std::optional<Error>& error() { return error_; }

 protected:
  bool leaf(const Value& a, const Value& b) override {
    if (kind_name(a) != kind_name(b))
      return differ(fmt::format("{} against {}", kind_name(a), kind_name(b)));
    if (is_tensor(a)) return tensors(a, b);
    if (const auto* object = a.get_if<Opaque>()) {
      const auto& other = *b.get_if<Opaque>();
      if (object->class_name != other.class_name)
        return differ(fmt::format("{} against {}", object->class_name, other.class_name));
      return walk_items(object->state, other.state);
    }
    if (internal::fingerprint(a) == internal::fingerprint(b)) return true;
    return differ(fmt::format("another {}", kind_name(a)));
  }

 private:
  bool tensors(const Value& a, const Value& b) {
    if (auto what = internal::form_difference(a, b)) return differ(*std::move(what));
    const auto of_a = internal::local_tensors(a);
    const auto of_b = internal::local_tensors(b);
    for (std::size_t i = 0; i < of_a.size(); ++i)
      if (!elements(*of_a[i], *of_b[i])) return false;
    return true;
  }

  bool elements(const Tensor& a, const Tensor& b) {
    const bool meta_a = a.storage && a.storage->is_meta();
    const bool meta_b = b.storage && b.storage->is_meta();
    if (meta_a && meta_b) return true;
    if (meta_a != meta_b) return differ("only one side has bytes, the other is meta");
    const auto at_a = first_element(a);
    if (!at_a.ok()) return fail(at_a.error());
    const auto at_b = first_element(b);
    if (!at_b.ok()) return fail(at_b.error());
    const auto index = first_other_element(a, *at_a, b, *at_b);
    return index ? differ(fmt::format("other bytes at {}", to_string(*index))) : true;
  }

  bool fail(Error error) {
    error_ = std::move(error).of_tensor(internal::shown_place(path()));
    return false;
  }

  std::optional<Error> error_;
};

}  // namespace

std::optional<Difference> check_state_dict_similarity(const Value& state, const Value& compared) {
  Similarity similarity;
  similarity.walk(state, compared);
  return std::move(similarity.difference());
}

Result<std::optional<Difference>> find_difference(const Value& a, const Value& b) {
  Equality equality;
  equality.walk(a, b);
  if (equality.error()) return *std::move(equality.error());
  return std::move(equality.difference());
}

}  // namespace shardkit

// What fmt's headers leave to fmt's library, compiled from those headers, for a program without it.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// format.h declares that these exist elsewhere (extern template).
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;

}  // namespace detail
FMT_END_NAMESPACE

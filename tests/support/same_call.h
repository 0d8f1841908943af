// Compares our declaration of a function with its owner's: whether calls pass the same arguments. For tests/mocks/*/*_header.cc.
#pragma once

#include <type_traits>

namespace tenon {

// Whether two types are passed in the same way: integers of one size, or pointers to alike types. Handles are pointers to anything;
// functions that are only handed back, pointers to any function.
template <class Ours, class Theirs>
constexpr bool alike() {
  using A = std::remove_cv_t<Ours>;
  using B = std::remove_cv_t<Theirs>;
  if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    return std::is_const_v<std::remove_pointer_t<A>> == std::is_const_v<std::remove_pointer_t<B>> &&
           alike<std::remove_pointer_t<A>, std::remove_pointer_t<B>>();
  } else if constexpr ((std::is_integral_v<A> || std::is_enum_v<A>) &&
                       (std::is_integral_v<B> || std::is_enum_v<B>)) {
    return sizeof(A) == sizeof(B);
  } else {
    return std::is_same_v<A, B> || (std::is_class_v<A> && std::is_class_v<B>) ||
           (std::is_function_v<A> && std::is_function_v<B>);
  }
}

template <class Ours, class Theirs>
struct Same : std::false_type {};
template <class Q, class... A, class R, class... B>
struct Same<Q(A...), R(B...)> {
  static constexpr bool check() {
    if constexpr (sizeof...(A) == sizeof...(B))
      return alike<Q, R>() && (alike<A, B>() && ...);
    else
      return false;
  }
  static constexpr bool value = check();
};

}  // namespace tenon

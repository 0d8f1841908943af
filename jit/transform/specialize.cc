// See specialize.h.
#include "jit/transform/specialize.h"

#include "jit/kernel/walk.h"

namespace tenon::jit {
namespace {

// factor * size, or INT64_MAX on overflow: addresses that large are never used.
int64_t times(int64_t factor, int64_t size) {
  int64_t product = 0;
  return __builtin_mul_overflow(factor, size, &product) ? INT64_MAX : product;
}

}  // namespace

Kernel with_sizes(const Kernel& kernel, std::span<const int64_t> sizes) {
  TENON_CHECK(sizes.size() == kernel.sizes.size(), "one value per size of @" + kernel.name);
  Kernel special = kernel;
  auto apply = [&](Extent& e) {
    if (e.size >= 0) e = {times(e.factor, sizes[e.size]), -1};
  };
  for (Buffer& b : special.buffers) apply(b.length);
  each_stmt(special.body, [&](Stmt& s) {
    if (s.kind == Stmt::Kind::size) {
      s.kind = Stmt::Kind::constant;
      s.literal = Scalar::of(sizes[s.size]);
      s.size = -1;
    }
    for (Term& t : s.address)
      if (t.size >= 0) t = {times(t.factor, sizes[t.size]), -1, t.var};
    std::erase_if(s.address, [](const Term& t) { return t.factor == 0; });
    for (Axis& a : s.axes) {
      if (a.of == kNoRef) apply(a.extent);
      apply(a.by);
    }
  });
  special.sizes.clear();
  for (int64_t n : sizes) special.name += "_" + std::to_string(n);
  return special;
}

}  // namespace tenon::jit

// See lane_stride.h.
#include "jit/analysis/lane_stride.h"

#include <algorithm>

#include "jit/kernel/walk.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {

using K = Stmt::Kind;

const Axis* axis_of(const Block& block, Ref variable) {
  const Axis* found = nullptr;
  find_stmt(block, [&](const Stmt& s) {
    const auto axis = std::ranges::find(s.axes, variable, &Axis::var);
    if (axis != s.axes.end()) found = &*axis;
    return found != nullptr;
  });
  return found;
}

std::optional<int64_t> lane_step(const Kernel& kernel, Ref value, Ref axis) {
  const Stmt* s = definition(kernel.body, value);
  if (!s) return std::nullopt;
  auto step = [&](size_t i) { return lane_step(kernel, s->args[i], axis); };
  if (s->kind == K::constant || s->kind == K::size) return 0;
  if (s->kind == K::index) return s->args[0] == axis ? 1 : 0;
  if (s->kind == K::load) {
    for (const Term& t : s->address)
      if (t.var == axis ||
          (t.var != kNoRef && !axis_of(kernel.body, t.var) && lane_step(kernel, t.var, axis) != 0))
        return std::nullopt;
    return 0;
  }
  if (s->kind != K::op) return std::nullopt;
  if (s->op == ops::add) {
    const auto a = step(0), b = step(1);
    return a && b ? std::optional(*a + *b) : std::nullopt;
  }
  for (size_t i = 0; i < s->args.size(); ++i)
    if (step(i) != 0) return std::nullopt;
  return 0;
}

}  // namespace tenon::jit

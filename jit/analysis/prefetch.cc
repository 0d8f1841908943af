// See prefetch.h.
#include "jit/analysis/prefetch.h"

#include <algorithm>

namespace tenon::jit {
namespace {

// Whether the address walks a row element by element. `row` counts rows, `element` counts elements.
bool walks_a_row(const Address& address, const Stmt& par, Ref row, Ref element) {
  bool by_row = false, by_element = false;
  for (const Term& t : address) {
    if (t.var == element) {
      if (t.factor != 1 || t.size >= 0) return false;
      by_element = true;
    } else if (t.var != kNoRef &&
               std::ranges::none_of(par.axes, [&](const Axis& a) { return a.var == t.var; })) {
      return false;
    }
    by_row |= t.var == row;
  }
  return by_row && by_element;
}

}  // namespace

std::vector<Prefetch> prefetches(const Kernel& kernel) {
  const Stmt& par = kernel.body[0];
  std::vector<const Stmt*> passes;
  for (const Stmt& s : par.body)
    if (!s.axes.empty()) passes.push_back(&s);
  auto same_row = [&](const Stmt* s) {
    const Axis &a = s->axes.back(), &b = passes[0]->axes.back();
    return s->simd && s->axes.size() == 1 && a.of == kNoRef && !a.counts_tiles() && a.extent == b.extent;
  };
  std::vector<Prefetch> result;
  if (par.axes.empty() || par.simd || passes.size() < 2 || !std::ranges::all_of(passes, same_row))
    return result;

  const Ref row = par.axes.back().var;
  std::vector<bool> seen(kernel.buffers.size());
  auto add = [&](const Stmt& from, const Stmt& at, Stmt::Kind kind, Buffer::Role role) {
    const Ref element = from.axes[0].var;
    for (const Stmt& s : from.body) {
      if (s.kind != kind || kernel.buffers[s.buffer].role != role || seen[s.buffer] ||
          !walks_a_row(s.address, par, row, element))
        continue;
      seen[s.buffer] = true;
      Prefetch p{&at, s.buffer, s.address, {}};
      for (Term& t : p.address) {
        if (t.var == row && role == Buffer::Role::in) p.step.push_back({t.factor, t.size, kNoRef});
        if (t.var == element) t.var = at.axes[0].var;
      }
      result.push_back(std::move(p));
    }
  };
  for (const Stmt* pass : passes) add(*pass, *passes[1], Stmt::Kind::load, Buffer::Role::in);
  add(*passes.back(), *passes[passes.size() - 2], Stmt::Kind::store, Buffer::Role::out);
  return result;
}

}  // namespace tenon::jit

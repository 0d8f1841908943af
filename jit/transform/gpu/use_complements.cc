// See use_complements.h.
#include "jit/transform/gpu/use_complements.h"

#include <map>
#include <set>
#include <utility>

#include "jit/kernel/builder.h"
#include "jit/kernel/walk.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {

Kernel use_complements(Kernel k) {
  using K = Stmt::Kind;
  std::map<Ref, std::pair<OpId, Ref>> functions;  // by result: function and its operand
  std::set<Ref> ones;
  auto use = [&](Stmt& s, Block& before) {
    if (s.op == ops::erf || s.op == ops::tanh) functions[s.result] = {s.op, s.args[0]};
    if (s.op != ops::add) return;
    const size_t one = ones.count(s.args[0]) ? 0 : 1;
    const auto f = functions.find(s.args[1 - one]);
    if (!ones.count(s.args[one]) || f == functions.end()) return;
    KernelBuilder b(k, before);
    const auto [function, z] = f->second;
    if (function == ops::erf) {
      s.args = {b.op(ops::neg, {z})};
      s.op = ops::erfc;
    } else {
      const Ref half = b.op(ops::sigmoid, {b.op(ops::add, {z, z})});
      s.args = {half, half};
    }
  };
  rewrite(k.body, [&](Stmt& s, Block& out) {
    if (s.kind == K::constant && is_float(s.type) && (s.literal.is_int ? s.literal.i == 1 : s.literal.d == 1))
      ones.insert(s.result);
    if (s.kind == K::op) use(s, out);
    out.push_back(std::move(s));
  });
  return k;
}

}  // namespace tenon::jit

// See use_complements.h.
#include "jit/transform/use_complements.h"

#include <map>
#include <set>
#include <utility>

#include "src/ops/rows/names.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;

}  // namespace

Kernel use_complements(Kernel k) {
  std::map<Ref, std::pair<OpId, Ref>> functions;  // by result: function and its operand
  std::set<Ref> ones;
  auto walk = [&](auto& self, Block& block) -> void {
    for (size_t i = 0; i < block.size(); ++i) {
      self(self, block[i].body);
      Stmt& s = block[i];
      if (s.kind == K::constant && is_float(s.type) &&
          (s.literal.is_int ? s.literal.i == 1 : s.literal.d == 1))
        ones.insert(s.result);
      if (s.kind != K::op) continue;
      if (s.op == ops::erf || s.op == ops::tanh) functions[s.result] = {s.op, s.args[0]};
      if (s.op != ops::add) continue;
      const size_t one = ones.count(s.args[0]) ? 0 : 1;
      const auto f = functions.find(s.args[1 - one]);
      if (!ones.count(s.args[one]) || f == functions.end()) continue;
      const auto [op, z] = f->second;
      const DType type = s.type;
      std::vector<Stmt> before;
      auto add = [&](OpId row, std::vector<Ref> args) {
        before.push_back({.kind = K::op, .op = row, .type = type, .result = k.add_ref(type), .args = args});
        return before.back().result;
      };
      if (op == ops::erf) {
        s.args = {add(ops::neg, {z})};
        s.op = ops::erfc;
      } else {
        const Ref half = add(ops::sigmoid, {add(ops::add, {z, z})});
        s.args = {half, half};
      }
      block.insert(block.begin() + static_cast<long>(i), before.begin(), before.end());
      i += before.size();
    }
  };
  walk(walk, k.body);
  return k;
}

}  // namespace tenon::jit

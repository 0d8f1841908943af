// See transposing.h.
#include "jit/analysis/transposing.h"

#include <algorithm>

#include "jit/analysis/lane_stride.h"
#include "jit/kernel/walk.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;

bool is_scalar(const Stmt& s) { return s.axes.empty() && s.kind != K::scan; }

// Makes the last loop of the par nest's body part of the nest.
bool merge_loop(Stmt& par) {
  if (par.simd) return std::ranges::all_of(par.body, is_scalar);
  if (par.body.empty()) return false;
  Stmt loop = std::move(par.body.back());
  par.body.pop_back();
  if (loop.kind != K::loop || !loop.simd || !std::ranges::all_of(loop.body, is_scalar)) return false;
  for (const Stmt& s : par.body)
    if (!is_scalar(s) || s.kind == K::store) return false;
  par.axes.insert(par.axes.end(), loop.axes.begin(), loop.axes.end());
  append(par.body, std::move(loop.body));
  par.simd = true;
  return true;
}

// The axis along which an access steps by one, if it jumps from lane to lane. Null: the access does not jump,
// steps along no axis, or its address depends on values.
const Axis* stepping_axis(const Kernel& map, const Stmt& s) {
  const Ref lane = map.body[0].axes.back().var;
  const Axis* step = nullptr;
  bool jumps = false;
  for (const Term& t : s.address) {
    if (t.var == kNoRef) continue;
    const Axis* axis = axis_of(map.body, t.var);
    if (!axis) return nullptr;
    const bool by_one = t.factor == 1 && t.size < 0;
    if (t.var == lane && by_one) return nullptr;
    jumps = jumps || t.var == lane;
    if (by_one && step) return nullptr;
    if (by_one) step = axis;
  }
  return jumps ? step : nullptr;
}

}  // namespace

std::optional<Kernel> merge_map(const Kernel& kernel) {
  if (has_locals(kernel)) return std::nullopt;
  Kernel merged = kernel;
  Stmt& par = merged.body[0];
  if (!merge_loop(par)) return std::nullopt;
  for (const Axis& a : par.axes)
    if (!a.is_whole()) return std::nullopt;
  for (const Stmt& s : par.body)
    if (s.kind == K::load && kernel.buffers[s.buffer].role == Buffer::Role::out) return std::nullopt;
  return merged;
}

std::optional<TransposingMap> transposing_map(const Kernel& kernel) {
  auto merged = merge_map(kernel);
  if (!merged || merged->body[0].axes.size() < 2) return std::nullopt;
  TransposingMap map{std::move(*merged), {}, {}, {}};
  const Stmt& par = map.kernel.body[0];
  map.along = par.axes.back();
  for (size_t i = 0; i < par.body.size(); ++i) {
    const Stmt& s = par.body[i];
    if (!is_access(s)) continue;
    const Axis* step = stepping_axis(map.kernel, s);
    if (!step || (!map.crossing.empty() && step->var != map.across.var)) continue;
    map.across = *step;
    map.crossing.push_back(i);
  }
  return map.crossing.empty() ? std::nullopt : std::optional(std::move(map));
}

}  // namespace tenon::jit

// See cuda_rows.h.
#include "jit/schedule/cuda_rows.h"

#include <algorithm>

namespace tenon::jit {

using K = Stmt::Kind;

const Axis* tiled_axis(const Kernel& kernel, const Axis& axis) {
  for (const Axis& a : kernel.body[0].axes)
    if (a.var == axis.of && a.counts_tiles()) return &a;
  return nullptr;
}

CudaRows::CudaRows(const Kernel& kernel, std::span<const int64_t> sizes) : k_(kernel), sizes_(sizes) {
  if (k_.body[0].simd) return;
  possible_ = true;
  each_stmt(k_.body[0].body, [&](const Stmt& s, const Around& around) { note(s, around); });
  possible_ = possible_ && longest_ >= 0;
}

int64_t CudaRows::kept_bytes() const {
  int64_t bytes = 0;
  for (const auto& [buffer, at] : locals_) bytes += size_of(k_.buffers[buffer].type);
  for (const auto& [buffer, loops] : loads_)
    if (loops > 1) bytes += size_of(k_.buffers[buffer].type);
  return bytes;
}

void CudaRows::note(const Stmt& s, const Around& around) {
  if (s.kind == K::scan) possible_ = false;
  for (const Axis& a : s.axes)
    if (a.counts_tiles() || (a.of != kNoRef && !tiled_axis(k_, a))) possible_ = false;
  if (is_access(s)) {
    const Buffer::Role role = k_.buffers[s.buffer].role;
    if (s.kind == K::load && role == Buffer::Role::out) possible_ = false;
    if (role == Buffer::Role::local) local(s, around.simd);
    if (s.kind == K::load && around.simd && role == Buffer::Role::in) ++loads_[s.buffer];
  }
  if (!s.simd) return;
  const Axis& a = s.axes.back();
  const Axis* tiles = tiled_axis(k_, a);
  int64_t n = extent_value(tiles ? tiles->extent : a.extent, sizes_.data());
  if (tiles) n = std::min(n, extent_value(tiles->by, sizes_.data()));
  even_ = even_ && around.depth <= 1 && (longest_ < 0 || (longest_ == n && tile_ == a.of));
  nested_ = nested_ || s.axes.size() > 1;
  several_ = several_ || around.depth > 0;
  tile_ = a.of;
  longest_ = std::max(longest_, n);
  ++loops_;
}

void CudaRows::local(const Stmt& s, const Stmt* simd) {
  if (!simd || simd->axes.back().of != kNoRef) return static_cast<void>(possible_ = false);
  // For each term of the address: axis of the loop, stride, extent.
  std::vector<std::array<int64_t, 3>> at;
  for (const Term& t : s.address) {
    int64_t axis = -1;
    for (size_t a = 0; a < simd->axes.size(); ++a)
      if (simd->axes[a].var == t.var) axis = static_cast<int64_t>(a);
    if (axis < 0) return static_cast<void>(possible_ = false);
    const Extent& e = simd->axes[static_cast<size_t>(axis)].extent;
    at.push_back({axis, t.size < 0 ? t.factor : t.factor * sizes_[t.size], extent_value(e, sizes_.data())});
  }
  std::sort(at.begin(), at.end());
  auto [it, is_new] = locals_.try_emplace(s.buffer, at);
  if (!is_new && it->second != at) possible_ = false;
  even_ = even_ && at.size() == 1 && at[0][1] == 1;
}

}  // namespace tenon::jit

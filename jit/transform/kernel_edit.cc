// See kernel_edit.h.
#include "jit/transform/kernel_edit.h"

#include "jit/kernel/walk.h"

namespace tenon::jit {
namespace {

// Calls buffer(number) and size(number) wherever a statement names a buffer or a size.
template <class OfBuffer, class OfSize>
void each_name(Block& block, const OfBuffer& buffer, const OfSize& size) {
  each_stmt(block, [&](Stmt& s) {
    if (s.buffer >= 0) buffer(s.buffer);
    if (s.size >= 0) size(s.size);
    for (Term& t : s.address)
      if (t.size >= 0) size(t.size);
    for (Axis& a : s.axes)
      for (Extent* e : {&a.extent, &a.by})
        if (e->size >= 0) size(e->size);
  });
}

// Removes the unused elements of a list. The list may be shorter than `used`.
template <class List>
void keep(List& list, const std::vector<bool>& used) {
  size_t to = 0;
  for (size_t from = 0; from < list.size(); ++from)
    if (used[from]) list[to++] = list[from];
  list.resize(to);
}

std::vector<int> places(const std::vector<bool>& used) {
  std::vector<int> at;
  int left = 0;
  for (bool u : used) at.push_back(u ? left++ : -1);
  return at;
}

}  // namespace

Dim dim_of(const Extent& e, const LoweredKernel& k, DimTable& dims) {
  return e.size < 0 ? Dim(e.factor) : dims.mul(Dim(e.factor), k.sizes[e.size]);
}

int size_argument(LoweredKernel& k, Dim size) {
  const int at = number_in(k.sizes, size);
  if (k.kernel.sizes.size() < k.sizes.size()) k.kernel.sizes.push_back("s" + std::to_string(at));
  return at;
}

int add_temps(LoweredKernel& k, std::span<const Temp> temps, size_t last, Buffer::Role role) {
  const auto base = static_cast<int>(k.buffers.size()), count = static_cast<int>(last);
  each_name(k.kernel.body, [&](int& b) { b += b >= base ? count : 0; }, [](int&) {});
  for (LoweredKernel::Sum& s : k.sums) s.buffer += count;
  for (int t = 0; t < count; ++t) {
    const size_t temp = temps.size() - last + static_cast<size_t>(t);
    k.buffers.push_back(TempId(temp));
    k.kernel.buffers.insert(k.kernel.buffers.begin() + base + t,
                            {role, temps[temp].type, "w" + std::to_string(temp), {}});
  }
  k.temps.assign(temps.begin(), temps.end());
  return base;
}

void drop_unused(LoweredKernel& k) {
  std::vector<bool> buffers(k.kernel.buffers.size()), sizes(k.sizes.size());
  each_name(k.kernel.body, [&](int b) { buffers[b] = true; }, [&](int s) { sizes[s] = true; });
  for (size_t b = 0; b < buffers.size(); ++b)
    if (const int size = k.kernel.buffers[b].length.size; buffers[b] && size >= 0) sizes[size] = true;
  const std::vector<int> buffer_at = places(buffers), size_at = places(sizes);
  keep(k.buffers, buffers);
  keep(k.kernel.buffers, buffers);
  keep(k.sizes, sizes);
  k.name_sizes();
  each_name(k.kernel.body, [&](int& b) { b = buffer_at[b]; }, [&](int& s) { s = size_at[s]; });
  for (Buffer& b : k.kernel.buffers)
    if (b.length.size >= 0) b.length.size = size_at[b.length.size];
}

}  // namespace tenon::jit

// See eval_kinds.h. Moves copy elements byte for byte.
#include <algorithm>
#include <cstring>

#include "src/ops/eval_kinds.h"
#include "src/ops/names.h"
#include "src/ops/rules.h"

namespace tenon {
namespace {

void copy_element(HostTensor& out, int64_t to, const HostTensor& in, int64_t from) {
  const int64_t size = size_of(out.dtype);
  std::memcpy(out.bytes.data() + to * size, in.bytes.data() + from * size, static_cast<size_t>(size));
}

// Where a view reads: operand offset + sum of strides[i] * index[i] of the result.
struct Affine {
  int64_t offset = 0;
  std::vector<int64_t> strides;
};

Affine affine_of(const Node& node, const HostTensor& in, const HostTensor& out) {
  const std::vector<int64_t> dense = dense_strides(in.shape);
  Affine map{0, dense};
  if (node.op == ops::transpose) {
    const auto perm = attr_ints(node, "perm");
    for (int i = 0; i < out.rank(); ++i) map.strides[i] = dense[*normal_axis(perm[i], in.rank())];
  } else if (node.op == ops::expand) {
    map.strides.assign(out.rank(), 0);
    const int lead = out.rank() - in.rank();
    for (int i = 0; i < in.rank(); ++i) map.strides[lead + i] = in.shape[i] == 1 ? 0 : dense[i];
  } else if (node.op == ops::slice) {
    const int axis = *normal_axis(attr_int(node, "axis"), in.rank());
    map.offset = attr_int(node, "start") * dense[axis];
    map.strides[axis] *= attr_int(node, "step");
  } else if (node.op == ops::flip) {
    const auto flags = axis_flags(attr_ints(node, "axes"), in.rank());
    for (int i = 0; i < in.rank(); ++i)
      if ((*flags)[i]) {
        map.offset += (in.shape[i] - 1) * dense[i];
        map.strides[i] = -dense[i];
      }
  } else if (node.op == ops::windows) {
    const auto axes = attr_ints(node, "axes"), strides = attr_ints(node, "strides"),
               dilations = attr_ints(node, "dilations");
    for (size_t i = 0; i < axes.size(); ++i) {
      const int axis = *normal_axis(axes[i], in.rank());
      map.strides[axis] = dense[axis] * strides[i];
      map.strides.push_back(dense[axis] * dilations[i]);
    }
  }
  return map;
}

void eval_concat(const Node& node, Operands in, HostTensor& out) {
  const int axis = *normal_axis(attr_int(node, "axis"), out.rank());
  const std::vector<int64_t> dense = dense_strides(out.shape);
  int64_t start = 0;
  for (const HostTensor* part : in) {
    walk(part->shape, {dense_strides(part->shape), dense},
         [&](const auto& at) { copy_element(out, at[1] + start * dense[axis], *part, at[0]); });
    start += part->shape[axis];
  }
}

void eval_pad(const Node& node, const HostTensor& in, HostTensor& out) {
  const Element value = element_of(attr_as<Scalar>(node, "value"), out.dtype);
  for (int64_t i = 0; i < out.count(); ++i) out.set(i, value);
  const auto low = attr_ints(node, "low");
  // The part of the operand that is not cropped.
  const std::vector<int64_t> from = dense_strides(in.shape), to = dense_strides(out.shape);
  std::vector<int64_t> shape(in.shape);
  int64_t from_base = 0, to_base = 0;
  for (int i = 0; i < in.rank(); ++i) {
    const int64_t begin = std::max<int64_t>(0, -low[i]), end = std::min(in.shape[i], out.shape[i] - low[i]);
    shape[i] = std::max<int64_t>(0, end - begin);
    from_base += begin * from[i];
    to_base += (begin + low[i]) * to[i];
  }
  walk(shape, {from, to}, [&](const auto& at) { copy_element(out, to_base + at[1], in, from_base + at[0]); });
}

// A negative index counts from the end; what is then outside is the nearest valid one.
int64_t clamp_index(int64_t index, int64_t size) {
  return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size - 1);
}

// "set" overwrites, "add" adds in the dtype.
void put(const Node& node, HostTensor& out, int64_t to, const HostTensor& updates, int64_t from) {
  if (attr_as<std::string>(node, "mode") == "set") return copy_element(out, to, updates, from);
  const Element a = out.get(to), b = updates.get(from);
  const bool any = is_bool(out.dtype);
  out.set(to,
          {a.d + b.d,
           any ? a.i | b.i : static_cast<int64_t>(static_cast<uint64_t>(a.i) + static_cast<uint64_t>(b.i))});
}

// Rows along axis: x is [outer, size, inner], the indexed side [outer, indices, inner].
template <class F>
void walk_rows(const Node& node, const HostTensor& x, const HostTensor& indices, F f) {
  const int axis = *normal_axis(attr_int(node, "axis"), x.rank());
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < x.rank(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : x.shape[i];
  const int64_t size = x.rank() == 0 ? 1 : x.shape[axis], count = indices.count();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t k = 0; k < count; ++k) {
      if (inner == 0) continue;
      const int64_t row = clamp_index(indices.get(k).i, size);
      for (int64_t i = 0; i < inner; ++i) f((o * size + row) * inner + i, (o * count + k) * inner + i);
    }
}

// One element per index, in place off-axis.
template <class F>
void walk_along(const Node& node, const HostTensor& x, const HostTensor& indices, F f) {
  const int axis = *normal_axis(attr_int(node, "axis"), x.rank());
  std::vector<int64_t> strides = dense_strides(x.shape);
  const int64_t step = x.rank() == 0 ? 1 : strides[axis], size = x.rank() == 0 ? 1 : x.shape[axis];
  for (int i = 0; i < x.rank(); ++i)
    if (i == axis || x.shape[i] == 1) strides[i] = 0;
  walk(indices.shape, {strides, dense_strides(indices.shape)},
       [&](const auto& at) { f(at[0] + clamp_index(indices.get(at[1]).i, size) * step, at[1]); });
}

}  // namespace

Status eval_move(const Node& node, Operands in, HostTensor& out) {
  const HostTensor& x = *in[0];
  switch (node.op) {
    case ops::reshape: out.bytes = x.bytes; return {};
    case ops::concat: eval_concat(node, in, out); return {};
    case ops::pad: eval_pad(node, x, out); return {};
    case ops::gather:
      walk_rows(node, x, *in[1], [&](int64_t from, int64_t to) { copy_element(out, to, x, from); });
      return {};
    case ops::take_along:
      walk_along(node, x, *in[1], [&](int64_t from, int64_t to) { copy_element(out, to, x, from); });
      return {};
    case ops::index_put:
      out.bytes = x.bytes;
      walk_rows(node, x, *in[1], [&](int64_t to, int64_t from) { put(node, out, to, *in[2], from); });
      return {};
    case ops::scatter:
      out.bytes = x.bytes;
      walk_along(node, x, *in[1], [&](int64_t to, int64_t from) { put(node, out, to, *in[2], from); });
      return {};
    default: break;
  }
  if (!op(node.op).view) return unsupported("no evaluation of this move");
  const Affine map = affine_of(node, x, out);
  walk(out.shape, {map.strides, dense_strides(out.shape)},
       [&](const auto& at) { copy_element(out, at[1], x, map.offset + at[0]); });
  return {};
}

}  // namespace tenon

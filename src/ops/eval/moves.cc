// See src/ops/eval/kinds.h. Moves copy elements byte for byte.
#include <algorithm>
#include <cstring>

#include "src/ops/eval/kinds.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/put_mode.h"
#include "src/ops/rules/rules.h"

namespace tenon {
namespace {

void copy_element(HostTensor& out, int64_t to, const HostTensor& in, int64_t from) {
  const int64_t size = size_of(out.dtype);
  std::memcpy(out.bytes.data() + to * size, in.bytes.data() + from * size, static_cast<size_t>(size));
}

// How a view reads its operand: offset + sum of strides[i] * index[i] of the result.
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
  // The part of the operand that negative padding does not cut off.
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

// Reads the indices of a node one by one.
class IndexReader {
 public:
  IndexReader(const Node& node, const HostTensor& indices, int64_t size)
      : indices_(indices), size_(size), wrap_(attr_as<bool>(node, "wrap")) {}
  int64_t operator()(int64_t k) {
    int64_t operands[] = {indices_.get(k).i, size_};
    if (wrap_ && operands[0] < 0) operands[0] += size_;
    fault_ = fault_ || row_.fault.eval(operands);
    return row_.eval_int(operands);
  }
  Status status() const { return fault_ ? invalid(std::string(row_.fault.what)) : Status(); }

 private:
  const HostTensor& indices_;
  const int64_t size_;
  const bool wrap_;
  const Op& row_ = op(ops::index_in);
  bool fault_ = false;
};

// Folds an update into an element, in the dtype of `out`.
void put(const PutMode& mode, HostTensor& out, int64_t to, const HostTensor& updates, int64_t from) {
  if (mode.sets) return copy_element(out, to, updates, from);
  const Element a = out.get(to), b = updates.get(from);
  const double floats[] = {a.d, b.d};
  const int64_t ints[] = {a.i, b.i};
  const Op& row = op(mode.row(out.dtype));
  if (is_float(out.dtype))
    out.set(to, {row.eval(floats), 0});
  else
    out.set(to, {0, row.eval_int(ints)});
}

// Calls f for rows along the axis: x is [outer, size, inner], the indexed side [outer, indices, inner].
template <class F>
Status walk_rows(const Node& node, const HostTensor& x, const HostTensor& indices, F f) {
  const int axis = *normal_axis(attr_int(node, "axis"), x.rank());
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < x.rank(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : x.shape[i];
  const int64_t size = x.rank() == 0 ? 1 : x.shape[axis], count = indices.count();
  IndexReader index(node, indices, size);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t k = 0; k < count; ++k) {
      if (inner == 0) continue;
      const int64_t row = index(k);
      for (int64_t i = 0; i < inner; ++i) f((o * size + row) * inner + i, (o * count + k) * inner + i);
    }
  return index.status();
}

// Calls f once per index; only the position along the axis is indexed.
template <class F>
Status walk_along(const Node& node, const HostTensor& x, const HostTensor& indices, F f) {
  const int axis = *normal_axis(attr_int(node, "axis"), x.rank());
  std::vector<int64_t> strides = dense_strides(x.shape);
  const int64_t step = x.rank() == 0 ? 1 : strides[axis], size = x.rank() == 0 ? 1 : x.shape[axis];
  for (int i = 0; i < x.rank(); ++i)
    if (i == axis || x.shape[i] == 1) strides[i] = 0;
  IndexReader index(node, indices, size);
  walk(indices.shape, {strides, dense_strides(indices.shape)},
       [&](const auto& at) { f(at[0] + index(at[1]) * step, at[1]); });
  return index.status();
}

}  // namespace

Status eval_move(const Node& node, Operands in, HostTensor& out) {
  const HostTensor& x = *in[0];
  const bool puts = node.op == ops::scatter || node.op == ops::index_put;
  const PutMode* mode = puts ? find_put_mode(attr_as<std::string>(node, "mode")) : nullptr;
  switch (node.op) {
    case ops::reshape: out.bytes = x.bytes; return {};
    case ops::concat: eval_concat(node, in, out); return {};
    case ops::pad: eval_pad(node, x, out); return {};
    case ops::gather:
      return walk_rows(node, x, *in[1], [&](int64_t from, int64_t to) { copy_element(out, to, x, from); });
    case ops::take_along:
      return walk_along(node, x, *in[1], [&](int64_t from, int64_t to) { copy_element(out, to, x, from); });
    case ops::index_put:
      out.bytes = x.bytes;
      return walk_rows(node, x, *in[1], [&](int64_t to, int64_t from) { put(*mode, out, to, *in[2], from); });
    case ops::scatter:
      out.bytes = x.bytes;
      return walk_along(node, x, *in[1],
                        [&](int64_t to, int64_t from) { put(*mode, out, to, *in[2], from); });
    default: break;
  }
  if (!op(node.op).view) return unsupported("no evaluation of this move");
  const Affine map = affine_of(node, x, out);
  walk(out.shape, {map.strides, dense_strides(out.shape)},
       [&](const auto& at) { copy_element(out, at[1], x, map.offset + at[0]); });
  return {};
}

}  // namespace tenon

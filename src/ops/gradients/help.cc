// See help.h.
#include "src/ops/gradients/help.h"

#include "src/ops/rules/rules.h"

namespace tenon::gradients {

Status zero(GradientContext&) { return {}; }

Expr zeros(Expr x, Dims shape) {
  return {x.b,
          (*x.b)(ops::full, {},
                 {{"value", Scalar::of(int64_t{0})}, {"shape", std::move(shape)}, {"dtype", x.dtype()}})};
}

Expr count_up(Builder* b, const Dims& shape, int64_t axis, DType dtype) {
  return {b, (*b)(ops::iota, {}, {{"shape", shape}, {"dtype", dtype}, {"axis", Dim(axis)}})};
}

Expr sum_to(Expr v, const Dims& shape) {
  const Dims from = v.shape();
  const size_t lead = from.size() - shape.size();
  Dims axes;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool repeated =
        i < lead || (from[i] != shape[i - lead] && v.b->dims().equal(shape[i - lead], Dim(1)) == true);
    if (repeated) axes.push_back(Dim(static_cast<int64_t>(i)));
  }
  if (!axes.empty()) v = call(ops::sum, v, {{"axes", axes}});
  return reshape(v, shape);
}

void set(GradientContext& c, size_t i, Expr value) {
  const TensorType type = c.b.type(c.node.inputs[i]);
  c.out[i] = cast(sum_to(value, type.shape), type.dtype).v;
}

std::vector<bool> folded_axes(const Terms& t) {
  auto flags = axis_flags(attr_ints(t.c.node, "axes"), t.rank());
  TENON_CHECK(flags.ok(), flags.status().message());
  return *flags;
}

Expr with_axes(const Terms& t, Expr folded) {
  const std::vector<bool> flags = folded_axes(t);
  Dims shape = t.shape();
  for (size_t i = 0; i < shape.size(); ++i)
    if (flags[i]) shape[i] = Dim(1);
  return reshape(folded, shape);
}

Expr expand(Expr v, const Dims& shape) {
  return v.shape() == shape ? v : call(ops::expand, v, {{"shape", shape}});
}

Expr place(Expr v, int axis, Dim start, Dim step, Dim size) {
  DimTable& dims = v.b->dims();
  Dims shape = v.shape();
  if (step != Dim(1)) {
    Dims apart = shape, low(shape.size() + 1, Dim(0)), high = low;
    apart.insert(apart.begin() + axis + 1, Dim(1));
    high[axis + 1] = dims.sub(step, 1);
    shape[axis] = dims.mul(shape[axis], step);
    v = reshape(call(ops::pad, reshape(v, apart), {{"low", low}, {"high", high}}), shape);
  }
  Dims low(shape.size(), Dim(0)), high = low;
  low[axis] = start;
  high[axis] = dims.sub(size, dims.add(start, shape[axis]));
  if (low[axis] == Dim(0) && high[axis] == Dim(0)) return v;
  return call(ops::pad, v, {{"low", low}, {"high", high}});
}

namespace {

// Above this size a window is scattered, not added element by element.
constexpr int64_t kMostAdded = 64;

// Undoes the window along `axis` whose elements are along the last axis of v.
Expr unwindow_axis(Expr v, int axis, Dim size, Dim stride, Dim dilation) {
  DimTable& dims = v.b->dims();
  const int last = v.rank() - 1;
  const Dims shape = v.shape();
  const Dim positions = shape[axis], kernel = shape[last];
  Dims merged(shape.begin(), shape.end() - 1);
  if (kernel.is_const() && kernel.value() <= kMostAdded && (dilation != Dim(1) || stride != kernel)) {
    Expr sum{};
    for (int64_t k = 0; k < kernel.value(); ++k) {
      Expr one = call(ops::slice, v, {{"axis", Dim(last)}, {"start", Dim(k)}, {"end", Dim(k + 1)}});
      one = place(reshape(one, merged), axis, dims.mul(dilation, k), stride, size);
      sum = k == 0 ? one : sum + one;
    }
    return sum;
  }
  merged[axis] = dims.mul(positions, kernel);
  v = reshape(transpose(v, moving(last + 1, last, axis + 1)), merged);
  if (dilation == Dim(1) && stride == kernel) return place(v, axis, Dim(0), Dim(1), size);
  auto steps = [&](int64_t along, const Dims& to, Dim step) {
    return count_up(v.b, to, along, DType::i64) * Expr{v.b, v.b->size(step, DType::i64)};
  };
  const Expr at = steps(0, {positions, Dim(1)}, stride) + steps(1, {Dim(1), kernel}, dilation);
  Dims whole = merged;
  whole[axis] = size;
  const Expr empty = zeros(v, whole), index = reshape(at, {merged[axis]});
  return {v.b, (*v.b)(ops::index_put, {empty.v, index.v, v.v},
                      {{"axis", Dim(axis)}, {"mode", std::string("add")}, {"wrap", false}})};
}

// The elements of v, one per window, if v repeats them along its last `count` axes, those of a window.
std::optional<Expr> one_per_window(Expr v, size_t count) {
  const Node& node = v.b->graph().node(v.v);
  if (node.op != ops::expand) return {};
  const Expr once{v.b, node.inputs[0]};
  Dims shape = v.shape();
  std::fill(shape.end() - static_cast<long>(count), shape.end(), Dim(1));
  if (once.shape() != shape) return {};
  shape.resize(shape.size() - count);
  return reshape(once, shape);
}

// v with `count` copies of each element along a new last axis.
Expr repeated(Expr v, Dim count) {
  Dims shape = v.shape();
  shape.push_back(Dim(1));
  v = reshape(v, shape);
  shape.back() = count;
  return call(ops::expand, v, {{"shape", shape}});
}

// Each element of the result is the sum of the elements of v whose windows along `axis`, at stride 1, cover it.
Expr sum_of_windows(Expr v, int axis, Dim kernel, Dim dilation) {
  DimTable& dims = v.b->dims();
  Dims reach(v.shape().size(), Dim(0));
  reach[axis] = dims.mul(dilation, dims.sub(kernel, 1));
  const Expr padded = call(ops::pad, v, {{"low", reach}, {"high", reach}});
  const Expr seen{v.b, bodies::windows_along(*v.b, padded.v, axis, kernel, 1, dilation)};
  return call(ops::sum, seen, {{"axes", Dims{Dim(v.rank())}}});
}

}  // namespace

Expr unwindow(Expr v, const Dims& x, const Node& windows) {
  const auto axes = attr_ints(windows, "axes");
  const Dims sizes = attr_as<Dims>(windows, "sizes"), strides = attr_as<Dims>(windows, "strides"),
             dilations = attr_as<Dims>(windows, "dilations");
  const auto once = sizes == strides ? std::nullopt : one_per_window(v, axes.size());
  if (once) v = *once;
  for (size_t i = axes.size(); i-- > 0;) {
    const int axis = *normal_axis(axes[i], static_cast<int>(x.size()));
    if (once && strides[i] == Dim(1)) {
      if (sizes[i] != Dim(1)) v = sum_of_windows(v, axis, sizes[i], dilations[i]);
      continue;
    }
    if (once) v = repeated(v, sizes[i]);
    v = unwindow_axis(v, axis, x[axis], strides[i], dilations[i]);
  }
  return v;
}

Expr swap_last(Expr v) {
  const int rank = v.rank();
  return transpose(v, moving(rank, rank - 1, rank - 2));
}

Dims moving(int rank, int from, int to) {
  Dims perm;
  for (int i = 0; i < rank; ++i)
    if (i != from) perm.push_back(Dim(i));
  perm.insert(perm.begin() + to, Dim(from));
  return perm;
}

Dims range(int first, int end) {
  Dims out;
  for (int i = first; i < end; ++i) out.push_back(Dim(i));
  return out;
}

}  // namespace tenon::gradients

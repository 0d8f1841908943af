// See gradients.h. The gradients of max_pool and adaptive_avg_pool.
#include "src/ops/gradients/help.h"

namespace tenon::gradients {

// The first largest element of a window gets the window's gradient. Everything runs on windows of the padded
// operand; cropping drops what the padding gets.
Status max_pool(GradientContext& c) {
  const Terms t{c};
  if (!t.wants(0)) return {};
  const bool last = bodies::is_channels_last(c.node);
  const int rank = t.rank();
  auto first = [&](Expr v) { return last ? transpose(v, bodies::to_channels_first(rank)) : v; };
  const Expr x = first(t.given(0)), y = first(Expr{&c.b, c.y}), dy = first(t.dy());
  const Dims kernel = attr_as<Dims>(c.node, "kernel"), strides = attr_as<Dims>(c.node, "strides");
  Dims dilations = attr_as<Dims>(c.node, "dilations");
  if (dilations.empty()) dilations.assign(kernel.size(), Dim(1));
  Dims low(2, Dim(0)), high = low;
  for (Dim d : attr_as<Dims>(c.node, "padding")) low.push_back(d);
  for (Dim d : attr_as<Dims>(c.node, "padding_high")) high.push_back(d);
  const Scalar lowest = identity_of(op(ops::max), x.dtype());
  const Expr padded = call(ops::pad, x, {{"low", low}, {"high", high}, {"value", lowest}});
  const Expr seen =
      call(ops::windows, padded,
           {{"axes", range(2, rank)}, {"sizes", kernel}, {"strides", strides}, {"dilations", dilations}});

  const int spatial = rank - 2;
  auto beside = [&](Expr v) {  // one element per window
    Dims shape = v.shape();
    shape.insert(shape.end(), spatial, Dim(1));
    return reshape(v, shape);
  };
  const Dim size = c.b.dims().product(kernel);
  const Expr index = reshape(count_up(&c.b, {size}, 0, DType::i32), kernel);
  const Expr largest = either(equal(seen, beside(y)), call(ops::isnan, seen));
  const Expr none{&c.b, c.b.size(size, DType::i32)};
  const Expr chosen = fold(ops::min, pick(largest, index, none), range(rank, rank + spatial));
  const Expr spread = pick(equal(index, chosen), beside(dy), 0);

  for (size_t i = 0; i < low.size(); ++i) {
    low[i] = c.b.dims().sub(Dim(0), low[i]);
    high[i] = c.b.dims().sub(Dim(0), high[i]);
  }
  const Node windows = c.b.graph().node(seen.v);
  Expr dx = call(ops::pad, unwindow(spread, padded.shape(), windows), {{"low", low}, {"high", high}});
  if (last) dx = transpose(dx, bodies::to_channels_last(rank));
  set(c, 0, dx);
  return {};
}

// Each element gets the gradients of the windows that it lies in, over the number of their elements.
Status adaptive_avg_pool(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const bool last = bodies::is_channels_last(t.c.node);
    Builder& b = t.c.b;
    const int rank = t.rank();
    Expr dx = last ? transpose(t.dy(), bodies::to_channels_first(rank)) : t.dy();
    for (int axis = rank - 1; axis >= 2; --axis) {
      const Dim size = t.shape()[last ? axis - 1 : axis];
      const Dim windows = dx.shape()[axis];
      const auto each = b.dims().divide(size, windows);
      if (!each) {
        const Expr counts{&b, bodies::uneven_windows(b, size, windows).counts};
        dx = dx / Expr{&b, bodies::along(b, cast(counts, dx.dtype()).v, rank, axis)};
        dx = {&b, bodies::sum_of_uneven(b, dx.v, axis, bodies::uneven_windows(b, windows, size))};
        continue;
      }
      Dims apart = dx.shape(), whole = dx.shape();
      whole[axis] = size;
      apart.insert(apart.begin() + axis + 1, Dim(1));
      dx = reshape(dx / Expr{&b, bodies::count(b, dx.v, *each)}, apart);
      apart[axis + 1] = *each;
      dx = reshape(expand(dx, apart), whole);
    }
    return last ? transpose(dx, bodies::to_channels_last(rank)) : dx;
  });
}

}  // namespace tenon::gradients

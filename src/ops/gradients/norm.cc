// See gradients.h. The gradients of norms. unit is (x - mean) / sqrt(var + eps), the result before weight and
// bias; the gradient by x is (d - mean(d) - unit * mean(d * unit)) / sqrt(var + eps) with d = dy * weight.
#include "src/ops/gradients/help.h"

namespace tenon::gradients {
namespace {

Expr mean_of(Expr v, const Dims& axes) { return {v.b, bodies::average(*v.b, v.v, axes)}; }

Expr inverse_root(const Terms& t, Expr v) { return call(ops::rsqrt, v + attr_as<double>(t.c.node, "eps")); }

// Sums over all axes but one.
Expr per_channel(Expr v, int channel) {
  Dims axes;
  for (int i = 0; i < v.rank(); ++i)
    if (i != channel) axes.push_back(Dim(i));
  return call(ops::sum, v, {{"axes", axes}});
}

// `split`: the shape in which `axes` have the mean and the variance. place(weight) has x's rank; back(v) is
// the sum of v, of x's shape, for one parameter.
template <class Place, class Back>
void standardised(GradientContext& c, const Dims& split, const Dims& axes, Place place, Back back) {
  const Terms t{c};
  const Expr x = reshape(t.x(), split);
  const Expr centred = x - mean_of(x, axes);
  const Expr scale = inverse_root(t, mean_of(centred * centred, axes));
  const Expr unit = centred * scale;
  give(c, 0, [&](const Terms&) {
    const Expr d =
        reshape(t.c.node.inputs.size() > 1 ? t.dy() * place(cast(t.given(1), x.dtype())) : t.dy(), split);
    return reshape(scale * (d - mean_of(d, axes) - unit * mean_of(d * unit, axes)), t.shape());
  });
  give(c, 1, [&](const Terms&) { return back(t.dy() * reshape(unit, t.shape())); });
  give(c, 2, [&](const Terms&) { return back(t.dy()); });
}

void channels(GradientContext& c, const Dims& split, const Dims& axes, int channel) {
  const int rank = c.b.type(c.y).rank();
  standardised(
      c, split, axes, [&](Expr v) { return Expr{v.b, bodies::along(*v.b, v.v, rank, channel)}; },
      [&](Expr v) { return per_channel(v, channel); });
}

}  // namespace

Status layer_norm(GradientContext& c) {
  const Dims shape = c.b.shape(c.y);
  const int rank = static_cast<int>(shape.size());
  auto same = [](Expr v) { return v; };
  standardised(c, shape, range(rank - static_cast<int>(attr_int(c.node, "axes_count")), rank), same, same);
  return {};
}

Status rms_norm(GradientContext& c) {
  const Terms t{c};
  const Expr x = t.x();
  const int rank = t.rank();
  const Dims axes = range(rank - static_cast<int>(attr_int(c.node, "axes_count")), rank);
  const Expr scale = inverse_root(t, mean_of(x * x, axes)), unit = x * scale;
  give(c, 0, [&](const Terms&) {
    const Expr d = c.node.inputs.size() > 1 ? t.dy() * cast(t.given(1), x.dtype()) : t.dy();
    return scale * (d - unit * mean_of(d * unit, axes));
  });
  give(c, 1, [&](const Terms&) { return t.dy() * unit; });
  return {};
}

// As in the body: the channel axis becomes [groups, channels of a group].
Status group_norm(GradientContext& c) {
  const Dims shape = c.b.shape(c.y);
  const int rank = static_cast<int>(shape.size());
  const int channel = bodies::is_channels_last(c.node) ? rank - 1 : 1;
  const Dim groups = attr_as<Dim>(c.node, "groups");
  Dims split = shape, axes;
  split[channel] = groups;
  split.insert(split.begin() + channel + 1, *c.b.dims().divide(shape[channel], groups));
  for (int i = 1; i <= rank; ++i)
    if (i != channel) axes.push_back(Dim(i));
  channels(c, split, axes, channel);
  return {};
}

Status instance_norm(GradientContext& c) {
  const Dims shape = c.b.shape(c.y);
  channels(c, shape, range(2, static_cast<int>(shape.size())), 1);
  return {};
}

}  // namespace tenon::gradients

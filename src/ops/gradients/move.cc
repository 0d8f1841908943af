// See gradients.h. The gradients of views, concatenation and padding.
#include "src/ops/gradients/help.h"
#include "src/ops/rules/rules.h"

namespace tenon::gradients {

Status reshape(GradientContext& c) {
  return only(c, [](const Terms& t) { return reshape(Expr{&t.c.b, t.c.dy}, t.shape()); });
}

Status transpose(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const auto perm = attr_ints(t.c.node, "perm");
    const int64_t rank = t.rank();
    Dims inverse(perm.size());
    for (int64_t i = 0; i < rank; ++i) inverse[*normal_axis(perm[i], t.rank())] = Dim(i);
    return transpose(Expr{&t.c.b, t.c.dy}, inverse);
  });
}

Status expand(GradientContext& c) {
  return only(c, [](const Terms& t) { return t.dy(); });
}

Status slice(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const int axis = *normal_axis(attr_int(t.c.node, "axis"), t.rank());
    return place(Expr{&t.c.b, t.c.dy}, axis, attr_as<Dim>(t.c.node, "start"), attr_as<Dim>(t.c.node, "step"),
                 t.shape()[axis]);
  });
}

Status windows(GradientContext& c) {
  return only(c, [](const Terms& t) { return unwindow(t.dy(), t.shape(), t.c.node); });
}

Status flip(GradientContext& c) {
  return only(c, [](const Terms& t) {
    return call(ops::flip, Expr{&t.c.b, t.c.dy}, {{"axes", attr_as<Dims>(t.c.node, "axes")}});
  });
}

Status concat(GradientContext& c) {
  const int axis = *normal_axis(attr_int(c.node, "axis"), c.b.type(c.node.inputs[0]).rank());
  Dim start(0);
  for (size_t i = 0; i < c.node.inputs.size(); ++i) {
    const Dim end = c.b.dims().add(start, c.b.shape(c.node.inputs[i])[axis]);
    give(c, i, [&](const Terms& t) {
      return call(ops::slice, Expr{&t.c.b, t.c.dy}, {{"axis", Dim(axis)}, {"start", start}, {"end", end}});
    });
    start = end;
  }
  return {};
}

// Cuts off what was added, and puts zeros where something was cut off.
Status pad(GradientContext& c) {
  return only(c, [](const Terms& t) {
    Dims low = attr_as<Dims>(t.c.node, "low"), high = attr_as<Dims>(t.c.node, "high");
    for (Dims* amounts : {&low, &high})
      for (Dim& d : *amounts) d = t.c.b.dims().sub(Dim(0), d);
    return call(ops::pad, Expr{&t.c.b, t.c.dy}, {{"low", low}, {"high", high}});
  });
}

}  // namespace tenon::gradients

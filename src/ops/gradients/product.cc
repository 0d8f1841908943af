// See gradients.h. The gradients of matrix products: products with the other operand transposed.
#include "src/ops/gradients/help.h"

namespace tenon::gradients {
namespace {

Expr product(const Terms& t, Expr a, Expr b) {
  return {a.b, (*a.b)(ops::matmul, {a.v, b.v}, {{"tf32", attr_as<bool>(t.c.node, "tf32")}})};
}

// [..., M, K] as [..., * M, K].
Expr rows(Expr v) {
  const Dims shape = v.shape();
  return reshape(v, {v.b->dims().product(std::span(shape).first(shape.size() - 1)), shape.back()});
}

Expr with_axis(Expr v, size_t at) {
  Dims shape = v.shape();
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(at), Dim(1));
  return reshape(v, shape);
}

// The node's groups of rows, with other operands.
Expr by_groups(OpId op, const Terms& t, Expr a, Expr b) {
  return {a.b, (*a.b)(op, {a.v, t.given(1).v, b.v})};
}

}  // namespace

// A vector is a matrix with one row or one column. If only a has batches, the batches are rows of one product
// and not products whose sum would follow.
Status matmul(GradientContext& c) {
  const Terms t{c};
  Expr a = t.given(0), b = t.given(1), dy{&c.b, c.dy};
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) {
    a = with_axis(a, 0);
    dy = with_axis(dy, static_cast<size_t>(dy.rank()) - (column ? 0 : 1));
  }
  if (column) {
    b = with_axis(b, 1);
    dy = with_axis(dy, static_cast<size_t>(dy.rank()));
  }
  give(c, 0, [&](const Terms&) {
    const Expr da = sum_to(wide(product(t, dy, swap_last(b))), a.shape());
    return reshape(da, t.shape(0));
  });
  give(c, 1, [&](const Terms&) {
    const bool one_product = b.rank() == 2 && a.rank() > 2;
    const Expr db = one_product ? product(t, swap_last(rows(a)), rows(dy)) : product(t, swap_last(a), dy);
    return reshape(sum_to(wide(db), b.shape()), t.shape(1));
  });
  return {};
}

Status linear(GradientContext& c) {
  const Terms t{c};
  const Expr dy{&c.b, c.dy};
  give(c, 0, [&](const Terms&) { return product(t, dy, t.given(1)); });
  give(c, 1, [&](const Terms&) { return product(t, swap_last(rows(dy)), rows(t.given(0))); });
  give(c, 2, [&](const Terms&) { return t.dy(); });
  return {};
}

// The operators of groups are the gradients of each other.
Status grouped_matmul(GradientContext& c) {
  const Terms t{c};
  const Expr dy{&c.b, c.dy};
  give(c, 0, [&](const Terms&) { return by_groups(ops::grouped_matmul, t, dy, swap_last(t.given(2))); });
  give(c, 2, [&](const Terms&) { return by_groups(ops::grouped_outer, t, t.given(0), dy); });
  return {};
}

Status grouped_outer(GradientContext& c) {
  const Terms t{c};
  const Expr dy{&c.b, c.dy};
  give(c, 0, [&](const Terms&) { return by_groups(ops::grouped_matmul, t, t.given(2), swap_last(dy)); });
  give(c, 2, [&](const Terms&) { return by_groups(ops::grouped_matmul, t, t.given(0), dy); });
  return {};
}

}  // namespace tenon::gradients

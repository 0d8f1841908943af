// See gradients.h. The gradients of rows with indices. gather and index_put index whole rows along an axis,
// take_along and scatter single elements; a Pairing reads and writes in the manner of its node.
#include "src/ops/gradients/help.h"
#include "src/ops/rules/rules.h"

namespace tenon::gradients {
namespace {

class Pairing {
 public:
  explicit Pairing(const Terms& t)
      : t_(t),
        by_element_(t.c.node.op == ops::take_along || t.c.node.op == ops::scatter),
        axis_(*normal_axis(attr_int(t.c.node, "axis"), t.rank())) {}

  // The elements of `from`, of x's shape, that the indices name.
  Expr read(Expr from) const {
    if (by_element_) {  // the indices may cover only the first elements of the other axes
      const Dims have = from.shape(), want = t_.shape(1);
      for (int d = 0; d < static_cast<int>(have.size()); ++d)
        if (d != axis_ && have[d] != want[d])
          from = call(ops::slice, from, {{"axis", Dim(d)}, {"start", Dim(0)}, {"end", want[d]}});
    }
    return {from.b, (*from.b)(by_element_ ? ops::take_along : ops::gather, {from.v, t_.given(1).v},
                              {{"axis", Dim(axis_)}, {"wrap", wrap()}})};
  }
  // `into` with the updates set or folded in where the indices name.
  Expr write(Expr into, Expr updates, const char* mode) const {
    return {into.b, (*into.b)(by_element_ ? ops::scatter : ops::index_put, {into.v, t_.given(1).v, updates.v},
                              {{"axis", Dim(axis_)}, {"mode", std::string(mode)}, {"wrap", wrap()}})};
  }
  int axis() const { return axis_; }

 private:
  bool wrap() const { return attr_as<bool>(t_.c.node, "wrap"); }

  const Terms& t_;
  const bool by_element_;
  const int axis_;
};

// Whether each update is the last one of its element. Numbers the updates in their order.
Expr wins(const Terms& t, const Pairing& pairing) {
  const Dims updates = t.shape(2);
  const Expr flat = count_up(&t.c.b, {t.c.b.dims().product(updates)}, 0, DType::i64);
  const Expr place = reshape(flat, updates);
  return equal(pairing.read(pairing.write(zeros(place, t.shape()), place, "set")), place);
}

void put_set(GradientContext& c) {
  give(c, 0, [](const Terms& t) { return Pairing(t).write(t.dy(), zeros(t.dy(), t.shape(2)), "set"); });
  give(c, 2, [](const Terms& t) {
    const Pairing pairing(t);
    return pick(wins(t, pairing), pairing.read(t.dy()), 0);
  });
}

void put_add(GradientContext& c) {
  give(c, 0, [](const Terms& t) { return t.dy(); });
  give(c, 2, [](const Terms& t) { return Pairing(t).read(t.dy()); });
}

// Everything that equals the result shares its gradient.
void put_extreme(GradientContext& c) {
  auto share = [](const Terms& t, Expr mine, Expr update) {
    return t.dy() / Pairing(t).write(mine, update, "add");
  };
  auto mine = [](const Terms& t) { return cast(equal(t.x(0), t.y()), t.dy().dtype()); };
  auto update = [](const Terms& t) { return cast(equal(t.x(2), Pairing(t).read(t.y())), t.dy().dtype()); };
  give(c, 0, [&](const Terms& t) { return mine(t) * share(t, mine(t), update(t)); });
  give(c, 2, [&](const Terms& t) { return update(t) * Pairing(t).read(share(t, mine(t), update(t))); });
}

// dy times the product of the other factors. The product without an element's only zero is computed with 1 in
// its place; with two zeros everything is 0.
void put_mul(GradientContext& c) {
  give(c, 0, [](const Terms& t) {
    return t.dy() * Pairing(t).write(zeros(t.dy(), t.shape()) + 1.0, t.x(2), "mul");
  });
  give(c, 2, [](const Terms& t) {
    const Pairing pairing(t);
    const Expr update = t.x(2), is_zero = equal(update, 0);
    const Expr count =
        pairing.read(pairing.write(zeros(t.dy(), t.shape()), cast(is_zero, t.dy().dtype()), "add"));
    const Expr only_zero = both(is_zero, equal(count, 1));
    const Expr without = pairing.write(t.x(0), pick(only_zero, 1, update), "mul");
    const Expr divided = pairing.read(t.dy() * t.y()) / pick(is_zero, 1, update);
    return pick(only_zero, pairing.read(t.dy() * without), divided);
  });
}

Status put(GradientContext& c) {
  const std::string& mode = attr_as<std::string>(c.node, "mode");
  if (mode == "set")
    put_set(c);
  else if (mode == "add")
    put_add(c);
  else if (mode == "mul")
    put_mul(c);
  else
    put_extreme(c);
  return {};
}

}  // namespace

Status gather(GradientContext& c) {
  return only(c, [](const Terms& t) { return Pairing(t).write(zeros(t.dy(), t.shape()), t.dy(), "add"); });
}

// Axes of size 1 off the axis are repeated.
Status take_along(GradientContext& c) {
  return only(c, [](const Terms& t) {
    const Pairing pairing(t);
    Dims whole = t.shape(1);
    if (!whole.empty()) whole[pairing.axis()] = t.shape()[pairing.axis()];
    return pairing.write(zeros(t.dy(), whole), t.dy(), "add");
  });
}

Status scatter(GradientContext& c) { return put(c); }
Status index_put(GradientContext& c) { return put(c); }

}  // namespace tenon::gradients

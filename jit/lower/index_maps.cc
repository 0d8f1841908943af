// See index_maps.h. Tested by tests/golden/golden_test.cc, tests/unit/runtime/run_test.cc.
#include "jit/lower/index_maps.h"

#include <algorithm>

#include "src/ops/eval/host_tensor.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/indices.h"
#include "src/ops/rules/rules.h"

namespace tenon::jit {
namespace {

const Dims& shape_of(Evaluator& e, const Node& n, int operand = 0) {
  return e.graph().type(n.inputs[operand]).shape;
}

int64_t axis_of(const Node& n, int rank) {
  int64_t axis = attr_int(n, "axis");
  return axis < 0 ? axis + rank : axis;
}

// The number as an element of the dtype holds it.
Ref number(Evaluator& e, const Scalar& value, DType dtype) {
  const Element x = element_of(value, dtype);
  return e.literal(compute_type(dtype), is_float(dtype) ? Scalar::of(x.d) : Scalar::of(x.i));
}

Ref reshape(Evaluator& e, const Node& n, const Indices& at) {
  const Dims& made = n.type.shape;  // without elements, the value is never used
  if (std::count(made.begin(), made.end(), Dim(0))) return number(e, Scalar::of(int64_t{0}), n.type.dtype);
  // Dense rows have the same positions in any shape.
  const ValueId x = n.inputs[0];
  if (auto r = e.load_dense(x, e.index().linear(at, dense_strides(e.dims(), n.type.shape)))) return *r;
  Indices operand;
  Request why;
  if (e.index().reshape(n.type.shape, at, shape_of(e, n), &operand, &why))
    return e.eval(n.inputs[0], operand);
  if (why.kind == Request::Kind::split && !e.may_split(why.axis))
    why = {.why = "a reshape splits the axis of a scan"};
  if (why.kind != Request::Kind::decline || !e.may_divide()) return e.fail(std::move(why));
  // The element's number, as digits in the mixed radix of the operand's shape.
  const Dims& shape = shape_of(e, n);
  Ref number = e.index_value(e.index().linear(at, dense_strides(e.dims(), n.type.shape)));
  operand.assign(shape.size(), Index{});
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == Dim(1)) continue;
    const Ref size = e.size_value(shape[d]);
    operand[d] = e.index().dynamic(e.scalar_op(ops::fmod, {number, size}, DType::i64), shape[d]);
    number = e.scalar_op(ops::trunc_div, {number, size}, DType::i64);
  }
  return e.eval(n.inputs[0], operand);
}

Ref transpose(Evaluator& e, const Node& n, const Indices& at) {
  Indices operand(at.size());
  auto perm = attr_ints(n, "perm");
  for (size_t i = 0; i < at.size(); ++i) operand[perm[i] < 0 ? perm[i] + at.size() : perm[i]] = at[i];
  return e.eval(n.inputs[0], operand);
}

Ref expand(Evaluator& e, const Node& n, const Indices& at) {
  return e.eval(n.inputs[0], e.broadcast(at, shape_of(e, n), n.type.shape));
}

Ref slice(Evaluator& e, const Node& n, const Indices& at) {
  Indices operand = at;
  Index& i = operand[axis_of(n, n.type.rank())];
  i = e.index().shift(e.index().scale(i, attr_as<Dim>(n, "step")), attr_as<Dim>(n, "start"));
  return e.eval(n.inputs[0], operand);
}

Ref windows(Evaluator& e, const Node& n, const Indices& at) {
  const size_t rank = shape_of(e, n).size();
  auto axes = attr_ints(n, "axes");
  const Dims &strides = attr_as<Dims>(n, "strides"), &dilations = attr_as<Dims>(n, "dilations");
  Indices operand(at.begin(), at.begin() + rank);
  for (size_t k = 0; k < axes.size(); ++k) {
    Index& i = operand[axes[k] < 0 ? axes[k] + rank : axes[k]];
    i = e.index().add(e.index().scale(i, strides[k]), e.index().scale(at[rank + k], dilations[k]));
  }
  return e.eval(n.inputs[0], operand);
}

Ref flip(Evaluator& e, const Node& n, const Indices& at) {
  Indices operand = at;
  const std::vector<bool> flipped = *axis_flags(attr_ints(n, "axes"), n.type.rank());
  for (size_t a = 0; a < at.size(); ++a)
    if (flipped[a])
      operand[a] = e.index().shift(e.index().scale(at[a], Dim(-1)), e.dims().sub(n.type.shape[a], Dim(1)));
  return e.eval(n.inputs[0], operand);
}

// The range of an index, and the axis along which it can be cut. If the index can be cut, it takes every
// value of its range or, with constant ends, every step-th value.
struct Run {
  int axis = -1;  // -1: cannot be cut
  int64_t step = 1;
  Dim first, last;  // values are in [first, last)
};
std::optional<Run> run_of(Evaluator& e, const Index& i) {
  const auto range = e.index().range(i);
  if (!range) return {};
  Run run{-1, 1, range->first, e.dims().add(range->first, range->count)};
  if (i.terms.size() != 1 || i.terms[0].dynamic || !i.terms[0].coef.is_const()) return run;
  run.step = i.terms[0].coef.value();
  const bool constant = run.first.is_const() && run.last.is_const();
  if (run.step == 1 || run.step == -1 || constant) run.axis = static_cast<int>(i.terms[0].id);
  return run;
}

// The value of its axis at which a run has to be cut so that one side stays below `position`.
Dim cut_of(Evaluator& e, const Run& run, Dim position) {
  DimTable& dims = e.dims();
  return run.step > 0 ? dims.ceil_div(dims.sub(position, run.first), Dim(run.step))
                      : dims.ceil_div(dims.sub(run.last, position), Dim(-run.step));
}

// The piece in which `at` lies. `cuts` (ascending) cut the axis into pieces; piece 0 is below cuts[0].
// Returns -1 after a request to cut the axis there. whole: all cuts lie within [0, whole].
int piece_of(Evaluator& e, const Index& at, const Dims& cuts, std::optional<Dim> whole,
             std::string_view op_name) {
  const std::string name(op_name);
  DimTable& dims = e.dims();
  const auto run = run_of(e, at);
  if (!run) {
    e.decline(name + " is read in a direction that depends on sizes");
    return -1;
  }
  // Position where the run begins on the axis without segments.
  auto begin = [&](const LoopAxis& axis, int64_t step) {
    return dims.sub(step > 0 ? run->first : run->last, dims.mul(Dim(step), axis.start));
  };
  for (size_t a = 0; a < e.axes().size(); ++a) {
    const LoopAxis& axis = e.axes()[a];
    const bool same = static_cast<int>(a) == run->axis;
    // An axis of extent 1 has no term. Its pieces apply where `at` is a constant.
    if (!same && (axis.extent != Dim(1) || !at.terms.empty())) continue;
    for (const KnownPiece& known : axis.pieces)
      if ((!same || known.step == run->step) && known.begin == begin(axis, known.step) && *known.cuts == cuts)
        return known.piece;
  }
  for (size_t k = 0; k <= cuts.size(); ++k)
    if ((k == 0 || e.index().at_most(cuts[k - 1], run->first)) &&
        (k == cuts.size() || e.index().at_most(run->last, cuts[k])))
      return static_cast<int>(k);
  if (run->axis < 0) {
    e.decline(name + ": the order of its pieces is not known");
    return -1;
  }
  const LoopAxis& axis = e.axes()[run->axis];
  const bool within = run->first == Dim(0) && run->last == whole;
  Request cut{Request::Kind::segment, static_cast<uint32_t>(run->axis), {}, {}, {}, {}};
  cut.piece = {begin(axis, run->step), run->step, std::make_shared<const Dims>(cuts), 0};
  for (Dim c : cuts) {
    Dim here = cut_of(e, *run, c);
    // For some sizes the cut may be beyond the loop. Then a segment is empty.
    if (!within && !e.index().at_most(here, axis.extent)) here = dims.min(here, axis.extent);
    if (!within && !e.index().at_most(Dim(0), here)) here = dims.max(here, Dim(0));
    cut.bounds.push_back(here);
  }
  if (run->step < 0) std::reverse(cut.bounds.begin(), cut.bounds.end());
  e.fail(std::move(cut));
  return -1;
}

Ref concat(Evaluator& e, const Node& n, const Indices& at) {
  const int64_t axis = axis_of(n, n.type.rank());
  Dims bounds{Dim(0)};
  for (ValueId v : n.inputs) bounds.push_back(e.dims().add(bounds.back(), e.graph().type(v).shape[axis]));
  const int piece =
      piece_of(e, at[axis], Dims(bounds.begin() + 1, bounds.end() - 1), bounds.back(), "concat");
  if (piece < 0) return 0;
  Indices operand = at;
  operand[axis] = e.index().shift(at[axis], e.dims().sub(Dim(0), bounds[piece]));
  return e.eval(n.inputs[piece], operand);
}

Ref pad(Evaluator& e, const Node& n, const Indices& at) {
  const Dims &low = attr_as<Dims>(n, "low"), &shape = shape_of(e, n);
  Indices operand = at;
  for (size_t a = 0; a < at.size(); ++a) {
    const Dim end = e.dims().add(low[a], shape[a]);
    if (low[a] == Dim(0) && end == n.type.shape[a]) continue;
    const int piece = piece_of(e, at[a], {low[a], end}, std::nullopt, "pad");
    if (piece < 0) return 0;
    if (piece != 1) return number(e, attr_as<Scalar>(n, "value"), n.type.dtype);
    operand[a] = e.index().shift(at[a], e.dims().sub(Dim(0), low[a]));
  }
  return e.eval(n.inputs[0], operand);
}

Ref gather(Evaluator& e, const Node& n, const Indices& at) {
  const Dims& shape = shape_of(e, n);
  const size_t axis = shape.empty() ? 0 : axis_of(n, static_cast<int>(shape.size()));
  const size_t width = shape_of(e, n, 1).size();
  Ref k = e.eval(n.inputs[1], Indices(at.begin() + axis, at.begin() + axis + width));
  if (e.failed()) return 0;
  k = index_into(e, n, k);
  if (shape.empty()) return e.eval(n.inputs[0], {});  // a scalar has one element to take
  Indices operand(at.begin(), at.begin() + axis);
  operand.push_back(e.index().dynamic(k, shape[axis]));
  operand.insert(operand.end(), at.begin() + axis + width, at.end());
  return e.eval(n.inputs[0], operand);
}

Ref take_along(Evaluator& e, const Node& n, const Indices& at) {
  const Dims& shape = shape_of(e, n);
  Ref k = e.eval(n.inputs[1], at);
  if (e.failed()) return 0;
  const size_t axis = shape.empty() ? 0 : axis_of(n, static_cast<int>(shape.size()));
  k = index_into(e, n, k);
  if (shape.empty()) return e.eval(n.inputs[0], {});
  Indices operand = e.broadcast(at, shape, n.type.shape);
  operand[axis] = e.index().dynamic(k, shape[axis]);
  return e.eval(n.inputs[0], operand);
}

Ref full(Evaluator& e, const Node& n, const Indices&) {
  return number(e, attr_as<Scalar>(n, "value"), n.type.dtype);
}

Ref iota(Evaluator& e, const Node& n, const Indices& at) {
  const Scalar start = attr_as<Scalar>(n, "start"), step = attr_as<Scalar>(n, "step");
  Ref i = e.index_value(at.empty() ? Index{} : at[axis_of(n, n.type.rank())]);
  // Like torch.arange: integers exactly, floats in double.
  const DType wide = is_float(n.type.dtype) ? DType::f64 : DType::i64;
  i = e.cast_to(i, wide);
  if (step.as_double() != 1) i = e.scalar_op(ops::mul, {i, number(e, step, wide)}, wide);
  if (start.as_double() != 0) i = e.scalar_op(ops::add, {i, number(e, start, wide)}, wide);
  return e.cast_to(i, compute_type(n.type.dtype));
}

Ref dim(Evaluator& e, const Node& n, const Indices&) {
  return e.cast_to(e.size_value(attr_as<Dim>(n, "value")), compute_type(n.type.dtype));
}

// scatter and index_put start as a copy of their operand; jit/lower/scatter.cc adds the updates.
Ref first_operand(Evaluator& e, const Node& n, const Indices& at) { return e.eval(n.inputs[0], at); }

struct Row {
  OpId op;
  Move move;
};
constexpr Row kMoves[] = {
    {ops::reshape, reshape},
    {ops::transpose, transpose},
    {ops::expand, expand},
    {ops::slice, slice},
    {ops::windows, windows},
    {ops::flip, flip},
    {ops::concat, concat},
    {ops::pad, pad},
    {ops::gather, gather},
    {ops::take_along, take_along},
    {ops::full, full},
    {ops::iota, iota},
    {ops::dim, dim},
    {ops::scatter, first_operand},
    {ops::index_put, first_operand},
};

}  // namespace

Move find_move(OpId op) {
  for (const Row& row : kMoves)
    if (row.op == op) return row.move;
  return nullptr;
}

Ref index_into(Evaluator& e, const Node& node, Ref index) {
  const Dim size = *indexed_size(e.graph(), node);
  index = e.cast_to(index, DType::i64);
  if (is_index_into(e.graph(), node.inputs[1], size)) return index;
  const Ref n = e.size_value(size);
  if (attr_as<bool>(node, "wrap")) {
    const Ref negative =
        e.scalar_op(ops::lt, {index, e.literal(DType::i64, Scalar::of(int64_t{0}))}, DType::b8);
    index =
        e.scalar_op(ops::where, {negative, e.scalar_op(ops::add, {index, n}, DType::i64), index}, DType::i64);
  }
  return e.checked_op(node, ops::index_in, {index, n}, DType::i64);
}

Indices Evaluator::broadcast(const Indices& at, const Dims& operand, const Dims& result) const {
  Indices out(operand.size());
  const size_t skip = result.size() - operand.size();
  for (size_t i = 0; i < operand.size(); ++i)
    if (operand[i] != Dim(1) || result[skip + i] == Dim(1)) out[i] = at[skip + i];
  return out;
}

}  // namespace tenon::jit

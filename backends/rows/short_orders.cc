// See short_orders.h.
#include "backends/rows/short_orders.h"

#include <span>

#include "src/ops/rows/names.h"
#include "src/ops/rules/rules.h"

namespace tenon::rows {
namespace {

// Elements of a row; n elements take n * n comparisons. Where as many rows as kManyRows interleave, lanes read neighbours.
constexpr int64_t kFewest = 2, kMost = 7, kMostInterleaved = 16, kManyRows = 16;

size_t sorted_axis(const Graph& graph, const Node& node) {
  return static_cast<size_t>(*normal_axis(attr_int(node, "axis"), graph.type(node.inputs[0]).rank()));
}

}  // namespace

bool is_short_order(const Graph& graph, const Node& node) {
  if (node.op != ops::sort_order || attr_as<bool>(node, "select")) return false;
  const auto& [dtype, shape] = graph.type(node.inputs[0]);
  const size_t axis = sorted_axis(graph, node);
  const Dim length = shape[axis], start = attr_as<Dim>(node, "start"), end = attr_as<Dim>(node, "end"),
            between = graph.dims->product(std::span(shape).subspan(axis + 1));
  if (!length.is_const() || !start.is_const() || !end.is_const() || is_bool(dtype)) return false;
  const bool apart = between.is_const() && between.value() < kManyRows;
  return length.value() >= kFewest && length.value() <= (apart ? kMost : kMostInterleaved);
}

ValueId order_by_rank(Builder& b, const Node& node) {
  const ValueId x = node.inputs[0];
  const Dims shape = b.shape(x);
  const size_t axis = sorted_axis(b.graph(), node);
  const Dim n = shape[axis], start = attr_as<Dim>(node, "start"),
            count(attr_as<Dim>(node, "end").value() - start.value());
  // A row along the first or the second of two axes that take the place of its own.
  const auto on_axes = [&](ValueId v, Dim first, Dim second) {
    Dims s = shape;
    s[axis] = first;
    s.insert(s.begin() + static_cast<long>(axis) + 1, second);
    return b.reshape(v, s);
  };
  // The positions along the first or the second of these axes.
  const auto positions = [&](Dim rows, int64_t along, Dim from) {
    Dims grid{rows, n};
    grid.resize(shape.size() - axis + 1, Dim(1));
    return b(
        ops::iota, {},
        {{"shape", grid}, {"dtype", DType::i32}, {"axis", Dim(along)}, {"start", Scalar::of(from.value())}});
  };
  const ValueId own = on_axes(x, n, Dim(1)), other = on_axes(x, Dim(1), n);
  const bool descending = attr_as<bool>(node, "descending");
  ValueId before = descending ? b(ops::gt, {other, own}) : b(ops::lt, {other, own});
  ValueId equal = b(ops::eq, {other, own});
  if (is_float(b.type(x).dtype)) {
    const ValueId own_nan = b(ops::ne, {own, own}), other_nan = b(ops::ne, {other, other});
    const ValueId larger = descending ? other_nan : own_nan, smaller = descending ? own_nan : other_nan;
    before = b(ops::logical_or, {before, b(ops::logical_and, {larger, b(ops::logical_not, {smaller})})});
    equal = b(ops::logical_or, {equal, b(ops::logical_and, {own_nan, other_nan})});
  }
  const ValueId earlier = b(ops::lt, {positions(n, 1, Dim(0)), positions(n, 0, Dim(0))});
  before = b(ops::logical_or, {before, b(ops::logical_and, {equal, earlier})});
  const Dims second{Dim(static_cast<int64_t>(axis) + 1)};
  const ValueId rank = b(ops::sum, {b.cast(before, DType::i32)}, {{"axes", second}});
  const ValueId found = b(ops::eq, {on_axes(rank, Dim(1), n), positions(count, 0, start)});
  const ValueId none =
      b(ops::full, {}, {{"value", Scalar::of(int64_t{0})}, {"shape", Dims{}}, {"dtype", DType::i32}});
  const ValueId order =
      b(ops::sum, {b(ops::where, {found, positions(count, 1, Dim(0)), none})}, {{"axes", second}});
  return b.cast(order, DType::i64);
}

}  // namespace tenon::rows

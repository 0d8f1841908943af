// See bodies.h.
#include <cmath>
#include <limits>

#include "src/ops/bodies/body_help.h"
#include "src/ops/rules/rules.h"

namespace tenon::bodies {
namespace {

const Dims& axes_of(const Node& node) { return attr_as<Dims>(node, "axes"); }

Dims only_axis(const Node& node) { return {attr_as<Dim>(node, "axis")}; }

// Applies the node's attribute keepdims to a value whose folded axes still have size 1.
ValueId drop_axes(Builder& b, const Node& node, ValueId v, const Dims& axes, int rank) {
  if (attr_as<bool>(node, "keepdims") || rank == 0) return v;
  std::vector<int64_t> listed;
  for (Dim axis : axes) listed.push_back(axis.value());
  const auto flags = axis_flags(listed, rank);
  Dims shape;
  for (int i = 0; i < rank; ++i)
    if (!(*flags)[i]) shape.push_back(b.shape(v)[i]);
  return b.reshape(v, std::move(shape));
}

// The first index of the extreme element: fold, compare, and take the smallest index that compares equal. A
// NaN is always the extreme, because max and min return NaN.
ValueId arg_extreme(Builder& b, const Node& node, OpId extreme) {
  const ValueId x = node.inputs[0];
  const int rank = b.type(x).rank();
  const Dims axes = only_axis(node);
  const ValueId best = fold(b, extreme, x, axes);
  ValueId pick = b(ops::eq, {x, best});
  if (is_float(dtype_of(b, x))) pick = b(ops::logical_or, {pick, b(ops::isnan, {x})});
  Dims shape(rank, Dim(1));
  const int axis = *normal_axis(axes[0].value(), rank);
  if (rank > 0) shape[axis] = b.shape(x)[axis];
  const ValueId index = b(ops::iota, {}, {{"shape", shape}, {"dtype", DType::i64}, {"axis", Dim(axis)}});
  const ValueId none = b.scalar_int(std::numeric_limits<int64_t>::max(), DType::i64);
  const ValueId chosen = b(ops::where, {pick, index, none});
  return b(ops::min, {chosen}, {{"axes", axes}, {"keepdims", attr_as<bool>(node, "keepdims")}});
}

}  // namespace

ValueId mean(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  const ValueId total =
      b(ops::sum, {x}, {{"axes", axes_of(node)}, {"keepdims", attr_as<bool>(node, "keepdims")}});
  return narrow(b, node, b(ops::div, {total, count(b, x, folded(b, x, axes_of(node)))}));
}

// sum((x - mean)^2) / max(count - correction, 0)
ValueId var(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  const ValueId centred = b(ops::sub, {x, average(b, x, axes_of(node))});
  const ValueId squares = b(ops::mul, {centred, centred});
  const ValueId total =
      b(ops::sum, {squares}, {{"axes", axes_of(node)}, {"keepdims", attr_as<bool>(node, "keepdims")}});
  const Dim size = folded(b, x, axes_of(node));
  const double correction = attr_as<double>(node, "correction");
  ValueId freedom;
  if (size.is_const()) {
    freedom = like(b, x, std::fmax(static_cast<double>(size.value()) - correction, 0));
  } else {
    freedom = b(ops::maximum, {b(ops::sub, {count(b, x, size), like(b, x, correction)}), like(b, x, 0)});
  }
  return narrow(b, node, b(ops::div, {total, freedom}));
}

ValueId argmax(Builder& b, const Node& node) { return arg_extreme(b, node, ops::max); }
ValueId argmin(Builder& b, const Node& node) { return arg_extreme(b, node, ops::min); }

ValueId softmax(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  const ValueId e = b(ops::exp, {b(ops::sub, {x, fold(b, ops::max, x, only_axis(node))})});
  // The sum is at least 1, so multiply by its reciprocal: one division per row, not one per element.
  const ValueId scale = b(ops::reciprocal, {fold(b, ops::sum, e, only_axis(node))});
  return narrow(b, node, b(ops::mul, {e, scale}));
}

ValueId log_softmax(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  const ValueId shifted = b(ops::sub, {x, fold(b, ops::max, x, only_axis(node))});
  const ValueId total = fold(b, ops::sum, b(ops::exp, {shifted}), only_axis(node));
  return narrow(b, node, b(ops::sub, {shifted, b(ops::log, {total})}));
}

// The shift is the row's largest element if it is finite, and 0 if it is infinite, because inf - inf is NaN.
ValueId logsumexp(Builder& b, const Node& node) {
  const ValueId x = wide(b, node.inputs[0]);
  const ValueId largest = fold(b, ops::max, x, axes_of(node));
  const ValueId shift = b(ops::where, {b(ops::isinf, {largest}), like(b, x, 0), largest});
  const ValueId total = fold(b, ops::sum, b(ops::exp, {b(ops::sub, {x, shift})}), axes_of(node));
  const ValueId result = b(ops::add, {b(ops::log, {total}), shift});
  return narrow(b, node, drop_axes(b, node, result, axes_of(node), b.type(x).rank()));
}

}  // namespace tenon::bodies

// See bodies.h. Pooling is a fold over windows of the padded input.
#include <algorithm>

#include "src/ir/group.h"
#include "src/ops/bodies/body_help.h"

namespace tenon::bodies {
namespace {

constexpr int64_t kShort = 4;  // elements of a window that is summed without a loop, at most
constexpr int64_t kMany = 16;  // windows along an axis that fill the lanes, at least

ValueId i64_number(Builder& b, Dim n) { return b.size(n, DType::i64); }

ValueId channels_last_again(Builder& b, ValueId y) {
  return b(ops::transpose, {y}, {{"perm", to_channels_last(b.type(y).rank())}});
}

Dims counted_from(int64_t first, size_t count) {
  Dims out;
  for (size_t i = 0; i < count; ++i) out.push_back(Dim(first + static_cast<int64_t>(i)));
  return out;
}

// Whether the body runs on x as it is: channels are innermost in memory, and x is no channels_first tensor seen through a transpose.
bool runs_channels_last(Builder& b, const Node& node) {
  if (!is_channels_last(node)) return false;
  const Node& x = b.graph().node(node.inputs[0]);
  if (x.op != ops::transpose) return true;
  Dims seen;
  const Dims strides = stored_strides(b.graph(), x.inputs[0]);
  for (const int64_t axis : attr_ints(x, "perm")) seen.push_back(strides[axis]);
  return seen == dense_strides(b.dims(), x.type.shape);
}

// Pads x with `value` and folds the windows over its spatial axes with `row`.
ValueId fold_windows(Builder& b, OpId row, ValueId x, const Node& node, const Dims& dilations, Scalar value) {
  const Dims &kernel = attr_as<Dims>(node, "kernel"), &strides = attr_as<Dims>(node, "strides");
  const Dims &low = attr_as<Dims>(node, "padding"), &high = attr_as<Dims>(node, "padding_high");
  const int64_t first = is_channels_last(node) ? 1 : 2;
  Dims pad_low(b.type(x).rank(), Dim(0)), pad_high = pad_low;
  std::ranges::copy(low, pad_low.begin() + first);
  std::ranges::copy(high, pad_high.begin() + first);
  const ValueId padded = b(ops::pad, {x}, {{"low", pad_low}, {"high", pad_high}, {"value", value}});
  const ValueId seen = b(ops::windows, {padded},
                         {{"axes", counted_from(first, kernel.size())},
                          {"sizes", kernel},
                          {"strides", strides},
                          {"dilations", dilations}});
  return b(row, {seen}, {{"axes", counted_from(b.type(x).rank(), kernel.size())}});
}

// How many cells each window averages over along one axis: the cells of x and, with count_include_pad, the
// padding. The padding counts with the same width on both sides: the part of padding_high beyond padding
// serves ceil_mode and never counts.
ValueId cells(Builder& b, Dim size, const Node& node, size_t axis, DType dtype) {
  const int64_t low = attr_ints(node, "padding")[axis], high = attr_ints(node, "padding_high")[axis];
  const bool include = attr_as<bool>(node, "count_include_pad");
  const int64_t in_low = include ? low : 0, in_high = include ? std::min(low, high) : 0;
  const ValueId ones = b(ops::full, {},
                         {{"value", Scalar::of(int64_t{1})},
                          {"shape", Dims{b.dims().add(size, in_low + in_high)}},
                          {"dtype", dtype}});
  const ValueId padded =
      b(ops::pad, {ones}, {{"low", Dims{Dim(low - in_low)}}, {"high", Dims{Dim(high - in_high)}}});
  const ValueId seen =
      windows_along(b, padded, 0, attr_as<Dims>(node, "kernel")[axis], attr_as<Dims>(node, "strides")[axis]);
  return b(ops::sum, {seen}, {{"axes", Dims{Dim(1)}}});
}

// Averages along one axis.
ValueId adapt_axis(Builder& b, ValueId x, int axis, Dim out) {
  const Dim size = b.shape(x)[axis];
  if (size == out) return x;
  if (out == Dim(1)) return average(b, x, {Dim(axis)});
  if (auto each = b.dims().divide(size, out)) {
    Dims apart = b.shape(x);
    apart[axis] = out;
    apart.insert(apart.begin() + axis + 1, *each);
    const ValueId split = b.reshape(x, apart);
    const ValueId total = b(ops::sum, {split}, {{"axes", Dims{Dim(axis + 1)}}});
    return b(ops::div, {total, count(b, x, *each)});
  }
  const UnevenWindows windows = uneven_windows(b, size, out);
  const ValueId counts = b.cast(windows.counts, dtype_of(b, x));
  return b(ops::div, {sum_of_uneven(b, x, axis, windows), along(b, counts, b.type(x).rank(), axis)});
}

}  // namespace

ValueId max_pool(Builder& b, const Node& node) {
  if (is_channels_last(node) && !runs_channels_last(b, node))
    return channels_last_again(b, max_pool(b, channels_first(b, node)));
  const ValueId x = node.inputs[0];
  const Dims& given = attr_as<Dims>(node, "dilations");
  const Dims dilations = given.empty() ? Dims(attr_as<Dims>(node, "kernel").size(), Dim(1)) : given;
  return fold_windows(b, ops::max, x, node, dilations, identity_of(op(ops::max), dtype_of(b, x)));
}

ValueId avg_pool(Builder& b, const Node& node) {
  if (is_channels_last(node)) return channels_last_again(b, avg_pool(b, channels_first(b, node)));
  const ValueId x = wide(b, node.inputs[0]);
  const auto kernel = attr_ints(node, "kernel"), low = attr_ints(node, "padding"),
             high = attr_ints(node, "padding_high");
  const size_t axes = kernel.size();
  const ValueId total = fold_windows(b, ops::sum, x, node, Dims(axes, Dim(1)), Scalar::of(int64_t{0}));
  int64_t constant = attr_int(node, "divisor");
  if (constant == 0) {
    bool all_count = true;  // every cell of every window counts
    for (size_t i = 0; i < axes; ++i)
      all_count &= attr_as<bool>(node, "count_include_pad") ? high[i] <= low[i] : low[i] == 0 && high[i] == 0;
    if (all_count) {
      constant = 1;
      for (int64_t size : kernel) constant *= size;
    }
  }
  if (constant != 0) return narrow(b, node, b(ops::div, {total, like(b, x, static_cast<double>(constant))}));
  ValueId divisor = kNoValue;
  for (size_t i = 0; i < axes; ++i) {
    const ValueId of_axis = along(b, cells(b, b.shape(x)[2 + i], node, i, dtype_of(b, x)),
                                  static_cast<int>(axes), static_cast<int>(i));
    divisor = i == 0 ? of_axis : b(ops::mul, {divisor, of_axis});
  }
  return narrow(b, node, b(ops::div, {total, divisor}));
}

ValueId windows_along(Builder& b, ValueId x, int axis, Dim size, Dim stride, Dim dilation) {
  return b(ops::windows, {x},
           {{"axes", Dims{Dim(axis)}},
            {"sizes", Dims{size}},
            {"strides", Dims{stride}},
            {"dilations", Dims{dilation}}});
}

namespace {

// A bound on the elements of an adaptive pooling's window: floor((size - 2) / windows) + 2, or a constant if one is known.
Dim longest_window(DimTable& dims, Dim size, Dim windows) {
  if (size.is_const() && windows.is_const()) {
    int64_t longest = 0;
    for (int64_t i = 0, s = size.value(), n = windows.value(); i < n; ++i)
      longest = std::max(longest, ((i + 1) * s + n - 1) / n - i * s / n);
    return longest;
  }
  const Dim beyond = dims.sub(size, 2);
  for (int64_t most = 1; most <= kShort; ++most) {
    const auto rest = dims.upper_bound(dims.sub(beyond, dims.mul(most - 1, windows)));
    if (rest && *rest < 0) return most;
  }
  return dims.add(dims.floor_div(beyond, windows), 2);
}

}  // namespace

UnevenWindows uneven_windows(Builder& b, Dim size, Dim windows) {
  const auto window = [&](int64_t first) {
    return b(ops::iota, {}, {{"shape", Dims{windows}}, {"dtype", DType::i64}, {"start", Scalar::of(first)}});
  };
  const auto times_size = [&](ValueId v) { return b(ops::mul, {v, i64_number(b, size)}); };
  UnevenWindows made;
  made.starts = b(ops::floor_div, {times_size(window(0)), i64_number(b, windows)});
  const ValueId past = b(ops::add, {times_size(window(1)), i64_number(b, b.dims().sub(windows, 1))});
  made.counts = b(ops::sub, {b(ops::floor_div, {past, i64_number(b, windows)}), made.starts});
  made.longest = longest_window(b.dims(), size, windows);
  return made;
}

namespace {

// The sum of windows of few elements: one gather for each element, which needs no loop over a window.
ValueId sum_of_short(Builder& b, ValueId x, int axis, const UnevenWindows& at) {
  const ValueId last = i64_number(b, b.dims().sub(b.shape(x)[axis], 1));
  ValueId sum = b(ops::gather, {x, at.starts}, {{"axis", Dim(axis)}, {"wrap", false}});
  for (int64_t k = 1; k < at.longest.value(); ++k) {
    const ValueId place = b(ops::minimum, {b(ops::add, {at.starts, i64_number(b, k)}), last});
    const ValueId element = b(ops::gather, {x, place}, {{"axis", Dim(axis)}, {"wrap", false}});
    const ValueId inside = along(b, b(ops::lt, {i64_number(b, k), at.counts}), b.type(x).rank(), axis);
    sum = b(ops::add, {sum, b(ops::where, {inside, element, like(b, x, 0)})});
  }
  return sum;
}

// The sum of windows in one loop, in which neighbouring windows are neighbouring lanes.
ValueId sum_of_many(Builder& b, ValueId x, int axis, const UnevenWindows& at) {
  const Dim windows = b.shape(at.starts)[0];
  const ValueId element =
      b.reshape(b(ops::iota, {}, {{"shape", Dims{at.longest}}, {"dtype", DType::i64}}), {at.longest, Dim(1)});
  const ValueId last = i64_number(b, b.dims().sub(b.shape(x)[axis], 1));
  const ValueId place = b(ops::minimum, {b(ops::add, {at.starts, element}), last});
  const ValueId taken = b(ops::gather, {x, place}, {{"axis", Dim(axis)}, {"wrap", false}});
  Dims shape(b.type(x).rank() + 1 - axis, Dim(1));
  shape[0] = at.longest;
  shape[1] = windows;
  const ValueId inside = b.reshape(b(ops::lt, {element, at.counts}), shape);
  return b(ops::sum, {b(ops::where, {inside, taken, like(b, x, 0)})}, {{"axes", Dims{Dim(axis)}}});
}

// The sum of windows in one loop. It reads windows as long as the longest one, which end in x; the elements in front of the real window
// and behind it do not count.
ValueId sum_of_long(Builder& b, ValueId x, int axis, const UnevenWindows& at) {
  const ValueId first =
      b(ops::minimum, {at.starts, i64_number(b, b.dims().sub(b.shape(x)[axis], at.longest))});
  const ValueId seen = windows_along(b, x, axis, at.longest);
  const ValueId taken = b(ops::gather, {seen, first}, {{"axis", Dim(axis)}, {"wrap", false}});
  const ValueId element = b(ops::iota, {}, {{"shape", Dims{at.longest}}, {"dtype", DType::i64}});
  const Dim windows = b.shape(at.starts)[0];
  const auto upright = [&](ValueId v) { return b.reshape(v, {windows, Dim(1)}); };
  const ValueId offset = b(ops::sub, {element, upright(b(ops::sub, {at.starts, first}))});
  const ValueId inside =
      b(ops::logical_and, {b(ops::ge, {offset, i64_number(b, 0)}), b(ops::lt, {offset, upright(at.counts)})});
  const int rank = b.type(x).rank();
  Dims shape(rank + 1 - axis, Dim(1));
  shape.front() = windows;
  shape.back() = at.longest;
  const ValueId counted = b(ops::where, {b.reshape(inside, shape), taken, like(b, x, 0)});
  return b(ops::sum, {counted}, {{"axes", Dims{Dim(rank)}}});
}

}  // namespace

ValueId sum_of_uneven(Builder& b, ValueId x, int axis, const UnevenWindows& windows) {
  if (windows.longest.is_const() && windows.longest.value() <= kShort)
    return sum_of_short(b, x, axis, windows);
  const Dim count = b.shape(windows.starts)[0];
  return count.is_const() && count.value() < kMany ? sum_of_long(b, x, axis, windows)
                                                   : sum_of_many(b, x, axis, windows);
}

ValueId adaptive_avg_pool(Builder& b, const Node& node) {
  const bool last = runs_channels_last(b, node);
  if (is_channels_last(node) && !last)
    return channels_last_again(b, adaptive_avg_pool(b, channels_first(b, node)));
  const int64_t first = last ? 1 : 2;  // axis of the pixels
  const Dims& output = attr_as<Dims>(node, "output");
  ValueId x = wide(b, node.inputs[0]);
  if (all_are(output, 1)) return narrow(b, node, average(b, x, counted_from(first, output.size())));
  for (size_t i = 0; i < output.size(); ++i) x = adapt_axis(b, x, static_cast<int>(first + i), output[i]);
  return narrow(b, node, x);
}

}  // namespace tenon::bodies

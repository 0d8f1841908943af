// Rows that cut tensors into parts and put them together.
#include <algorithm>

#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace slice_ops {
namespace {

Values concat(Call& c, int64_t axis) {
  return {c(ops::concat, c.in, {{"axis", Dim(c.axis(axis, c.rank(c.in[0])))}})};
}
Values concat_dim(Call& c) { return concat(c, c.a.integer("dim")); }
Values np_concatenate(Call& c) {
  if (!c.a.is_none("axis") && c.a.given("axis")) return concat(c, c.a.integer("axis"));
  if (c.a.given("dim")) return concat(c, c.a.integer("dim"));
  if (!c.a.given("axis")) return concat(c, 0);
  for (ValueId& v : c.in) v = c.reshape(v, {c.product(c.shape(v), 0, c.shape(v).size())});
  return concat(c, 0);
}

Values stack(Call& c) {
  Sizes shape = c.shape(c.in[0]);
  const int axis = c.axis(c.a.integer("axis"), static_cast<int>(shape.size()) + 1);
  shape.insert(shape.begin() + axis, Dim(1));
  for (ValueId& v : c.in) v = c.reshape(v, shape);
  return {c(ops::concat, c.in, {{"axis", Dim(axis)}})};
}

// Part `i` of `count` equal ones.
Values parts(Call& c, int axis, int64_t count, bool squeeze) {
  const ValueId x = c.in[0];
  DimTable& dims = c.b.dims();
  const auto size = dims.divide(c.shape(x)[axis], Dim(count));
  if (!size)
    throw StatusError(
        invalid(std::to_string(count) + " parts do not divide the size " + dims.print(c.shape(x)[axis])));
  Values out;
  for (int64_t i = 0; i < count; ++i) {
    ValueId part = c.slice(x, axis, dims.mul(*size, Dim(i)), dims.mul(*size, Dim(i + 1)));
    if (squeeze) {
      Sizes shape = c.shape(part);
      shape.erase(shape.begin() + axis);
      part = c.reshape(part, shape);
    }
    out.push_back(part);
  }
  return out;
}

Values slice_channel(Call& c) {
  const int axis = c.axis(c.a.integer("axis"), c.rank(c.in[0]));
  return parts(c, axis, c.a.integer("num_outputs"), c.a.flag("squeeze_axis"));
}
int channel_outputs(const Attrs& a) { return static_cast<int>(a.integer("num_outputs")); }

// All outputs have a part of the data's shape, so the data's shape follows from theirs.
void complete_slice_channel(Completion& c) {
  const int64_t count = c.a.integer("num_outputs");
  auto axis_of = [&](size_t rank) {
    const int64_t axis = c.a.integer("axis");
    return axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  };
  if (c.a.flag("squeeze_axis")) return;
  if (const auto* data = c.sizes(0)) {
    std::vector<Size> part = *data;
    const int64_t axis = axis_of(part.size());
    if (axis < 0 || axis >= static_cast<int64_t>(part.size())) return;
    if (part[axis]) part[axis] = c.dims.divide(*part[axis], Dim(count));
    for (Partial& out : c.out) c.set(out, part);
  }
  for (const Partial& out : c.out) {
    if (!out.shape) continue;
    std::vector<Size> whole = *out.shape;
    const int64_t axis = axis_of(whole.size());
    if (axis < 0 || axis >= static_cast<int64_t>(whole.size())) return;
    whole[axis] = c.mul(whole[axis], Size(Dim(count)));
    c.set(c.in[0], whole);
  }
}

Status check_count(const Ask& ask) {
  const int64_t n = ask.a.integer("num_outputs");
  return n >= 1 && n <= 4096 ? Status() : invalid("num_outputs is " + std::to_string(n) + ", not 1 to 4096");
}

// split_v2: `sections` equal parts, or parts that begin at `indices`, the first of which is 0.
Values split(Call& c) {
  const ValueId x = c.in[0];
  const int axis = c.axis(c.a.integer("axis"), c.rank(x));
  const int64_t sections = c.a.integer("sections");
  const bool squeeze = c.a.flag("squeeze_axis");
  if (sections > 0) return parts(c, axis, sections, squeeze);
  const auto begins = c.a.ints("indices");
  Values out;
  for (size_t i = 0; i < begins.size(); ++i) {
    const Dim end = i + 1 < begins.size() ? Dim(begins[i + 1]) : c.shape(x)[axis];
    out.push_back(c.slice(x, axis, Dim(begins[i]), end));
  }
  return out;
}
int split_outputs(const Attrs& a) {
  const int64_t sections = a.integer("sections");
  return sections > 0 ? static_cast<int>(sections) : static_cast<int>(a.tuple("indices").size());
}
Status check_split(const Ask& ask) {
  if (ask.a.integer("sections") > 4096 || split_outputs(ask.a) < 1)
    return invalid("splits into no or too many parts");
  return ask.a.integer("sections") == 0 && ask.a.flag("squeeze_axis")
             ? unsupported("squeeze_axis with indices")
             : Status();
}

// Python's slice along one axis. A bound that is absent or beyond the axis stands for its end.
ValueId python_slice(Call& c, ValueId v, int axis, std::optional<int64_t> begin, std::optional<int64_t> end,
                     int64_t step) {
  if (step == 0) throw StatusError(invalid("a step of 0"));
  DimTable& dims = c.b.dims();
  const Dim size = c.shape(v)[axis];
  auto bound = [&](std::optional<int64_t> given, Dim otherwise) {
    if (!given) return otherwise;
    if (!size.is_const())
      return *given < 0 ? dims.max(dims.add(size, Dim(*given)), Dim(0)) : dims.min(Dim(*given), size);
    const int64_t n = size.value();
    return Dim(
        std::clamp<int64_t>(*given < 0 ? *given + n : *given, step < 0 ? -1 : 0, step < 0 ? n - 1 : n));
  };
  if (step > 0) {
    const Dim from = bound(begin, Dim(0)), to = bound(end, size);
    return c.slice(v, axis, from, dims.max(from, to), step);
  }
  // Backwards: the mirror image of a slice of the mirror image.
  if (!size.is_const())
    throw StatusError(unsupported("a negative step along a symbolic size is not translated"));
  const Dim from = bound(begin, Dim(size.value() - 1)), to = end ? bound(end, Dim(-1)) : Dim(-1);
  const ValueId flipped = c(ops::flip, {v}, {{"axes", Dims{Dim(axis)}}});
  const Dim last = Dim(size.value() - 1);
  const Dim start = dims.sub(last, from);
  return c.slice(flipped, axis, start, dims.max(start, dims.sub(last, to)), -step);
}

Values slice(Call& c) {
  ValueId x = c.in[0];
  const Tuple begin = c.a.tuple("begin"), end = c.a.tuple("end"), step = c.a.tuple("step");
  if (begin.size() != end.size() || begin.size() > static_cast<size_t>(c.rank(x)) ||
      (!step.empty() && step.size() != begin.size()))
    throw StatusError(invalid("begin, end and step do not fit the operand"));
  for (size_t i = 0; i < begin.size(); ++i)
    x = python_slice(c, x, static_cast<int>(i), begin[i], end[i], step.empty() ? 1 : step[i].value_or(1));
  return {x};
}

Values slice_axis(Call& c) {
  const ValueId x = c.in[0];
  Tuple end(1);
  if (!c.a.is_none("end")) end = c.a.tuple("end");
  return {python_slice(c, x, c.axis(c.a.integer("axis"), c.rank(x)), c.a.integer("begin"), end.at(0), 1)};
}

Values slice_like(Call& c) {
  ValueId x = c.in[0];
  const Sizes like = c.shape(c.in[1]);
  auto axes = c.a.ints("axes");
  if (axes.empty())
    for (int i = 0; i < c.rank(x); ++i) axes.push_back(i);
  for (const int64_t given : axes) {
    const int axis = c.axis(given, c.rank(x));
    x = c.slice(x, axis, Dim(0), like.at(c.axis(given, static_cast<int>(like.size()))));
  }
  return {x};
}

// Crops the spatial axes to those of the second operand, or to h_w.
Values crop(Call& c) {
  ValueId x = c.in[0];
  const auto offset = c.a.ints("offset"), size = c.a.ints("h_w");
  if (c.rank(x) != 4 || offset.size() != 2 || size.size() != 2) throw StatusError(invalid("needs rank 4"));
  DimTable& dims = c.b.dims();
  for (int i = 0; i < 2; ++i) {
    const Dim want = c.has(1) ? c.shape(c.in[1]).at(2 + i) : Dim(size[i]);
    const Dim start =
        c.a.flag("center_crop") ? dims.floor_div(dims.sub(c.shape(x)[2 + i], want), Dim(2)) : Dim(offset[i]);
    x = c.slice(x, 2 + i, start, dims.add(start, want));
  }
  return {x};
}

const Row kRows[] = {
    {.names = "Concat concat", .operands = "data*", .attrs = "num_args:int dim:int=1", .body = concat_dim},
    {.names = "_rnn_param_concat _npi_rnn_param_concat",
     .operands = "data*",
     .attrs = "num_args:int dim:int=1",
     .body = concat_dim},
    {.names = "_npi_concatenate",
     .operands = "data*",
     .attrs = "num_args:int axis:int?=0 dim:int=1",
     .body = np_concatenate},
    {.names = "stack _npi_stack", .operands = "data*", .attrs = "axis:int=0 num_args:int", .body = stack},
    {.names = "SliceChannel split",
     .attrs = "num_outputs:int axis:int=1 squeeze_axis:bool=False",
     .body = slice_channel,
     .complete = complete_slice_channel,
     .check = check_count,
     .outputs = channel_outputs},
    {.names = "_split_v2 _npi_split",
     .attrs = "indices:shape axis:int=1 squeeze_axis:bool=False sections:int=0",
     .body = split,
     .check = check_split,
     .outputs = split_outputs},
    {.names = "slice crop _npx_slice _npi_slice",
     .attrs = "begin:shape end:shape step:shape=()",
     .body = slice},
    {.names = "slice_axis", .attrs = "axis:int begin:int end:int?", .body = slice_axis},
    {.names = "slice_like",
     .operands = "data shape_like",
     .attrs = "axes:shape=()",
     .body = slice_like,
     .mixed = true},
    {.names = "Crop",
     .operands = "data crop_like?",
     .attrs = "num_args:int offset:shape=(0,0) h_w:shape=(0,0) center_crop:bool=False",
     .body = crop,
     .mixed = true},
};

}  // namespace
}  // namespace slice_ops

std::span<const Row> slice_rows() { return slice_ops::kRows; }

}  // namespace tenon::mxnet

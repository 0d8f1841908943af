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

// NumPy's scalars as vectors, vectors as matrices, matrices as tensors of three axes.
ValueId at_least(Call& c, ValueId v, size_t rank) {
  Sizes shape = c.shape(v);
  if (shape.empty()) shape.push_back(Dim(1));
  if (rank > 1 && shape.size() == 1) shape.insert(shape.begin(), Dim(1));
  if (rank > 2 && shape.size() == 2) shape.push_back(Dim(1));
  return c.reshape(v, shape);
}
template <size_t rank>
Values all_at_least(Call& c) {
  for (ValueId& v : c.in) v = at_least(c, v, rank);
  return c.in;
}
int argument_count(const Attrs& a) { return static_cast<int>(a.integer("num_args")); }
Status check_argument_count(const Ask& ask) { return counts_operands(ask, "num_args"); }

template <size_t rank, int64_t axis>
Values stack_axis(Call& c) {
  all_at_least<rank>(c);
  return concat(c, axis);
}
Values hstack(Call& c) {
  all_at_least<1>(c);
  return concat(c, c.rank(c.in[0]) == 1 ? 0 : 1);
}
Values column_stack(Call& c) {
  for (ValueId& v : c.in) {
    v = at_least(c, v, 1);
    if (c.rank(v) == 1) v = c.reshape(v, {c.shape(v)[0], Dim(1)});
  }
  return concat(c, 1);
}

// Differences of neighbours along an axis, `times` times.
ValueId differences(Call& c, ValueId v, int axis, int64_t times) {
  if (times < 0 || times > 64) throw StatusError(unsupported("more than 64 differences are not translated"));
  for (; times > 0; --times) {
    const Dim size = c.shape(v)[static_cast<size_t>(axis)], less = c.b.dims().sub(size, Dim(1));
    v = c(ops::sub, {c.slice(v, axis, Dim(1), size), c.slice(v, axis, Dim(0), less)});
  }
  return v;
}
Values diff(Call& c) {
  return {differences(c, c.in[0], c.axis(c.a.integer("axis"), c.rank(c.in[0])), c.a.integer("n"))};
}
// The differences of all elements, between what is given for the begin and the end.
Values flat_differences(Call& c) {
  auto flat = [&](ValueId v) { return c.reshape(v, {c.product(c.shape(v), 0, c.shape(v).size())}); };
  const ValueId x = c.in[0];
  size_t next = 1;
  std::vector<ValueId> all;
  auto edge = [&](const char* given, const char* scalar) {
    if (c.a.flag(given))
      all.push_back(flat(c.in.at(next++)));
    else if (!c.a.is_none(scalar))
      all.push_back(c.full({Dim(1)}, c.dtype(x), c.a.number(scalar)));
  };
  edge("to_begin_arr_given", "to_begin_scalar");
  all.push_back(differences(c, flat(x), 0, 1));
  edge("to_end_arr_given", "to_end_scalar");
  return {all.size() == 1 ? all[0] : c(ops::concat, all, {{"axis", Dim(0)}})};
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
Values split_along(Call& c, int64_t along) {
  const ValueId x = c.in[0];
  const int axis = c.axis(along, c.rank(x));
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
Values split(Call& c) { return split_along(c, c.a.integer("axis")); }
Values horizontal_split(Call& c) { return split_along(c, c.rank(c.in[0]) > 1 ? 1 : 0); }
Values depth_split(Call& c) { return split_along(c, 2); }
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

// x with `value` in the part that begin, end and step name from `axis` on.
ValueId assign(Call& c, ValueId x, ValueId value, size_t axis) {
  const Tuple begin = c.a.tuple("begin"), end = c.a.tuple("end"), step = c.a.tuple("step");
  if (axis == begin.size()) return c(ops::expand, {value}, {{"shape", c.shape(x)}});
  const int at = static_cast<int>(axis);
  const int64_t by = step.empty() ? 1 : step[axis].value_or(1);
  const Dim size = c.shape(x)[axis];
  if (!size.is_const()) throw StatusError(unsupported("parts of a symbolic size are not translated"));
  const ValueId all = c(ops::iota, {}, {{"shape", Dims{size}}, {"dtype", DType::i64}});
  const ValueId places = python_slice(c, all, 0, begin[axis], end[axis], by);
  const ValueId inner = assign(c, python_slice(c, x, at, begin[axis], end[axis], by), value, axis + 1);
  return c(ops::index_put, {x, places, inner}, {{"axis", Dim(at)}, {"wrap", false}});
}
ValueId checked_assign(Call& c, ValueId value) {
  const size_t n = c.a.tuple("begin").size();
  const Tuple step = c.a.tuple("step");
  if (c.a.tuple("end").size() != n || n > static_cast<size_t>(c.rank(c.in[0])) ||
      (!step.empty() && step.size() != n))
    throw StatusError(invalid("begin, end and step do not fit the operand"));
  return assign(c, c.in[0], value, 0);
}
Values slice_assign(Call& c) { return {checked_assign(c, c.in[1])}; }
Values slice_assign_scalar(Call& c) { return {checked_assign(c, c.like(c.in[0], c.a.number("scalar")))}; }

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

constexpr std::string_view kSplit = "indices:shape axis:int=1 squeeze_axis:bool=False sections:int=0";

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
    {.names = "_npi_vstack", .operands = "data*", .attrs = "num_args:int", .body = stack_axis<2, 0>},
    {.names = "_npi_dstack",
     .operands = "data*",
     .attrs = "num_args:int dim:any=1",
     .body = stack_axis<3, 2>},
    {.names = "_npi_hstack", .operands = "data*", .attrs = "num_args:int dim:any=1", .body = hstack},
    {.names = "_npi_column_stack", .operands = "data*", .attrs = "num_args:int", .body = column_stack},
    {.names = "_np_atleast_1d",
     .operands = "arys*",
     .attrs = "num_args:int",
     .body = all_at_least<1>,
     .check = check_argument_count,
     .outputs = argument_count},
    {.names = "_np_atleast_2d",
     .operands = "arys*",
     .attrs = "num_args:int",
     .body = all_at_least<2>,
     .check = check_argument_count,
     .outputs = argument_count},
    {.names = "_np_atleast_3d",
     .operands = "arys*",
     .attrs = "num_args:int",
     .body = all_at_least<3>,
     .check = check_argument_count,
     .outputs = argument_count},
    {.names = "_npi_diff", .operands = "a", .attrs = "n:int=1 axis:int=-1", .body = diff},
    {.names = "_npi_ediff1d",
     .operands = "input1 input2? input3?",
     .attrs = "to_begin_arr_given:bool=False to_end_arr_given:bool=False to_begin_scalar:double?=None "
              "to_end_scalar:double?=None",
     .body = flat_differences},
    {.names = "_npi_hsplit",
     .attrs = kSplit,
     .body = horizontal_split,
     .check = check_split,
     .outputs = split_outputs},
    {.names = "_npi_dsplit",
     .attrs = kSplit,
     .body = depth_split,
     .check = check_split,
     .outputs = split_outputs},
    {.names = "SliceChannel split",
     .attrs = "num_outputs:int axis:int=1 squeeze_axis:bool=False",
     .body = slice_channel,
     .complete = complete_slice_channel,
     .check = check_count,
     .outputs = channel_outputs},
    {.names = "_split_v2 _npi_split",
     .attrs = kSplit,
     .body = split,
     .check = check_split,
     .outputs = split_outputs},
    {.names = "slice crop _npx_slice _npi_slice",
     .attrs = "begin:shape end:shape step:shape=()",
     .body = slice},
    {.names = "_slice_assign _npi_slice_assign",
     .operands = "lhs rhs",
     .attrs = "begin:shape end:shape step:shape=()",
     .body = slice_assign},
    {.names = "_slice_assign_scalar _npi_slice_assign_scalar",
     .attrs = "scalar:double=0.0 begin:shape end:shape step:shape=()",
     .body = slice_assign_scalar},
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

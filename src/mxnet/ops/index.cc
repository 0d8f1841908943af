// Rows that look elements up by index, and rows for sequences of different lengths. Indices may be floats, which are
// truncated.
#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace index_ops {
namespace {

ValueId as_index(Call& c, ValueId v) {
  const DType dtype = c.dtype(v);
  return dtype == DType::i32 || dtype == DType::i64 ? v : c.cast(v, DType::i64);
}

ValueId size_like(Call& c, Dim size, ValueId v) {
  if (size.is_const()) return c.like(v, static_cast<double>(size.value()));
  return c.b.size(size, c.dtype(v));
}

// Indices in [0, size): the nearest (clip), or the remainder (wrap).
ValueId inside(Call& c, ValueId indices, Dim size, bool wrap) {
  indices = as_index(c, indices);
  const ValueId end = size_like(c, size, indices);
  if (wrap) return c(ops::remainder, {indices, end});
  return c(ops::clamp, {indices, c.like(indices, 0), c(ops::sub, {end, c.like(indices, 1)})});
}

Values embedding(Call& c) {
  const ValueId rows = inside(c, c.in[0], Dim(c.a.integer("input_dim")), false);
  return {c(ops::gather, {c.in[1], rows}, {{"axis", Dim(0)}, {"wrap", false}})};
}
void complete_embedding(Completion& c) {
  c.set(c.in[1], {Size(Dim(c.a.integer("input_dim"))), Size(Dim(c.a.integer("output_dim")))});
  c.set(c.in[1], c.a.dtype("dtype"));
}

Values take(Call& c) {
  const int axis = c.axis(c.a.integer("axis"), c.rank(c.in[0]));
  const ValueId indices = inside(c, c.in[1], c.shape(c.in[0])[axis], c.a.text("mode") == "wrap");
  return {c(ops::gather, {c.in[0], indices}, {{"axis", Dim(axis)}, {"wrap", false}})};
}

// data[.., index[..], ..]: index has the data's shape without the axis, or with size 1 there.
ValueId pick_along(Call& c, ValueId data, ValueId index, int axis, bool wrap) {
  Sizes shape = c.shape(data);
  const Dim size = shape[axis];
  shape[axis] = Dim(1);
  index = c.reshape(inside(c, index, size, wrap), shape);
  return c(ops::take_along, {data, index}, {{"axis", Dim(axis)}, {"wrap", false}});
}

Values pick(Call& c) {
  const ValueId data = c.in[0];
  const int axis = c.axis(c.a.integer("axis"), c.rank(data));
  const ValueId picked = pick_along(c, data, c.in[1], axis, c.a.text("mode") == "wrap");
  if (c.a.flag("keepdims")) return {picked};
  Sizes shape = c.shape(picked);
  shape.erase(shape.begin() + axis);
  if (shape.empty() && c.node.op == "pick") shape.push_back(Dim(1));
  return {c.reshape(picked, shape)};
}
Status check_pick(const Ask& ask) {
  return ask.a.is_none("axis") ? unsupported("axis=None is not translated") : Status();
}
Values batch_take(Call& c) {
  return {c.reshape(pick_along(c, c.in[0], c.in[1], 1, false), {c.shape(c.in[0])[0]})};
}

Values one_hot(Call& c) {
  const ValueId indices = as_index(c, c.in[0]);
  const Dim depth(c.a.integer("depth"));
  Sizes column = c.shape(indices), classes(column.size() + 1, Dim(1));
  column.push_back(Dim(1));
  classes.back() = depth;
  const ValueId number = c(ops::iota, {},
                           {{"shape", classes},
                            {"dtype", c.dtype(indices)},
                            {"axis", Dim(static_cast<int64_t>(classes.size()) - 1)}});
  const ValueId hit = c(ops::eq, {c.reshape(indices, column), number});
  const DType dtype = c.a.dtype("dtype");
  return {c(ops::where,
            {hit, c.full({}, dtype, c.a.number("on_value")), c.full({}, dtype, c.a.number("off_value"))})};
}

// indices [M, ...]: indices[k] counts along axis k of a shape. The row among the first M axes as one: [...].
ValueId merged_index(Call& c, ValueId indices, const Sizes& shape) {
  indices = as_index(c, indices);
  if (c.rank(indices) < 1 || !c.shape(indices)[0].is_const())
    throw StatusError(unsupported("the number of indexed axes is not known"));
  const int64_t axes = c.shape(indices)[0].value();
  if (axes < 1 || axes > static_cast<int64_t>(shape.size()))
    throw StatusError(invalid("indices name more axes than the data has"));
  Sizes rest = c.shape(indices);
  rest.erase(rest.begin());
  ValueId row = kNoValue;
  for (int64_t k = 0; k < axes; ++k) {
    const ValueId part = c.reshape(c.slice(indices, 0, Dim(k), Dim(k + 1)), rest);
    const ValueId at = inside(c, part, shape[k], true);
    row = k == 0 ? at : c(ops::add, {c(ops::mul, {row, size_like(c, shape[k], row)}), at});
  }
  return row;
}
// The shape with its first axes, as many as indices name, as one.
Dims merged_shape(Call& c, ValueId indices, const Sizes& shape) {
  const auto axes = static_cast<size_t>(c.shape(indices)[0].value());
  Dims merged = {c.product(shape, 0, axes)};
  merged.insert(merged.end(), shape.begin() + static_cast<ptrdiff_t>(axes), shape.end());
  return merged;
}
Values gather_nd(Call& c) {
  const Sizes shape = c.shape(c.in[0]);
  const ValueId row = merged_index(c, c.in[1], shape);
  const ValueId data = c.reshape(c.in[0], merged_shape(c, c.in[1], shape));
  return {c(ops::gather, {data, row}, {{"axis", Dim(0)}, {"wrap", false}})};
}
// gather_nd's inverse: `values` in a copy of x.
ValueId put_nd(Call& c, ValueId x, ValueId values, ValueId indices) {
  const Sizes shape = c.shape(x);
  const ValueId row = merged_index(c, indices, shape);
  const ValueId flat = c.reshape(x, merged_shape(c, indices, shape));
  return c.reshape(c(ops::index_put, {flat, row, values}, {{"axis", Dim(0)}, {"wrap", false}}), shape);
}
Dims stated_shape(Call& c) {
  Dims out;
  for (const int64_t n : c.a.ints("shape")) out.push_back(Dim(n));
  return out;
}
Values scatter_nd(Call& c) {
  return {put_nd(c, c.full(stated_shape(c), c.dtype(c.in[0]), 0), c.in[0], c.in[1])};
}
Values index_copy(Call& c) {
  const ValueId row = as_index(c, c.in[1]);
  return {c(ops::index_put, {c.in[0], row, c.in[2]}, {{"axis", Dim(0)}, {"wrap", false}})};
}

// Coordinates [M, ...] and positions in a row-major tensor of the stated shape, in the dtype of the operand.
Values ravel(Call& c) {
  const auto sizes = c.a.ints("shape");
  const ValueId x = as_index(c, c.in[0]);
  Sizes rest = c.shape(x);
  if (rest.empty() || sizes.empty() || rest[0] != Dim(static_cast<int64_t>(sizes.size())))
    throw StatusError(invalid("the data does not have a row for each size"));
  rest.erase(rest.begin());
  ValueId at = kNoValue;
  for (size_t k = 0; k < sizes.size(); ++k) {
    const auto i = static_cast<int64_t>(k);
    const ValueId part = c.reshape(c.slice(x, 0, Dim(i), Dim(i + 1)), rest);
    at = k == 0 ? part : c(ops::add, {c(ops::mul, {at, c.like(at, static_cast<double>(sizes[k]))}), part});
  }
  return {c.cast(at, c.dtype(c.in[0]))};
}
Values unravel(Call& c) {
  const auto sizes = c.a.ints("shape");
  ValueId at = as_index(c, c.in[0]);
  Sizes row = c.shape(at);
  row.insert(row.begin(), Dim(1));
  std::vector<ValueId> rows(sizes.size());
  for (size_t k = sizes.size(); k-- > 0;) {
    const ValueId size = c.like(at, static_cast<double>(sizes[k]));
    rows[k] = c.reshape(k == 0 ? at : c(ops::remainder, {at, size}), row);
    if (k > 0) at = c(ops::floor_div, {at, size});
  }
  if (rows.empty()) throw StatusError(invalid("needs the attribute shape"));
  return {c.cast(c(ops::concat, rows, {{"axis", Dim(0)}}), c.dtype(c.in[0]))};
}
// The coordinates of each element along the given axes, as a last axis.
Values index_array(Call& c) {
  const Sizes shape = c.shape(c.in[0]);
  const int rank = c.rank(c.in[0]);
  std::vector<int64_t> axes = c.a.is_none("axes") ? std::vector<int64_t>() : c.a.ints("axes");
  if (c.a.is_none("axes"))
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  Dims column = shape;
  column.push_back(Dim(1));
  std::vector<ValueId> columns;
  for (const int64_t axis : axes)
    columns.push_back(
        c(ops::iota, {}, {{"shape", column}, {"dtype", DType::i64}, {"axis", Dim(c.axis(axis, rank))}}));
  if (columns.empty()) throw StatusError(unsupported("no axes are not translated"));
  return {c(ops::concat, columns, {{"axis", Dim(rank)}})};
}

// Sequences: time is along `axis` (0 or 1), the batch along the other. `place` puts a vector of the batch or of the
// time along its axis of the data.
struct Sequence {
  Sequence(Call& call, ValueId data)
      : c(call), x(data), time(call.axis(call.a.integer("axis"), call.rank(data))), batch(1 - time) {
    if (time > 1 || call.rank(data) < 2) throw StatusError(invalid("axis must be 0 or 1 of at least two"));
  }
  ValueId place(ValueId vector, int axis) const {
    Dims shape(c.rank(x), Dim(1));
    shape[axis] = c.shape(x)[axis];
    return c.reshape(vector, shape);
  }
  ValueId lengths() const { return place(c.cast(c.in[1], DType::i64), batch); }
  ValueId steps() const {
    Dims shape(c.rank(x), Dim(1));
    shape[time] = c.shape(x)[time];
    return c(ops::iota, {}, {{"shape", shape}, {"dtype", DType::i64}, {"axis", Dim(time)}});
  }
  // The elements at the given step of each sequence; `at` broadcasts to the data but for the time axis.
  ValueId pick(ValueId at, Dim count) const {
    Sizes shape = c.shape(x);
    shape[time] = count;
    return c(ops::take_along, {x, c(ops::expand, {at}, {{"shape", shape}})},
             {{"axis", Dim(time)}, {"wrap", false}});
  }
  Call& c;
  ValueId x;
  int time, batch;
};

Values sequence_mask(Call& c) {
  if (!c.a.flag("use_sequence_length")) return {c.in[0]};
  const Sequence s(c, c.in[0]);
  return {c(ops::where, {c(ops::lt, {s.steps(), s.lengths()}), s.x, c.like(s.x, c.a.number("value"))})};
}

Values sequence_last(Call& c) {
  const Sequence s(c, c.in[0]);
  const Dim size = c.shape(s.x)[s.time];
  ValueId last;
  if (c.a.flag("use_sequence_length")) {
    const ValueId lengths = s.lengths();
    last = s.pick(inside(c, c(ops::sub, {lengths, c.like(lengths, 1)}), size, false), Dim(1));
  } else {
    last = c.slice(s.x, s.time, c.b.dims().sub(size, Dim(1)), size);
  }
  Sizes shape = c.shape(last);
  shape.erase(shape.begin() + s.time);
  return {c.reshape(last, shape)};
}

Values sequence_reverse(Call& c) {
  const Sequence s(c, c.in[0]);
  if (!c.a.flag("use_sequence_length")) return {c(ops::flip, {s.x}, {{"axes", Dims{Dim(s.time)}}})};
  const ValueId steps = s.steps(), lengths = s.lengths();
  const ValueId mirrored = c(ops::sub, {c(ops::sub, {lengths, steps}), c.like(steps, 1)});
  const ValueId at = c(ops::where, {c(ops::lt, {steps, lengths}), mirrored, steps});
  return {s.pick(at, c.shape(s.x)[s.time])};
}

Status check_sequence(const Ask& ask) {
  const size_t n = ask.a.flag("use_sequence_length") ? 2 : 1;
  if (ask.node.inputs.size() != n)
    return invalid("takes " + std::to_string(n) + " operands, given " +
                   std::to_string(ask.node.inputs.size()));
  return {};
}
void complete_sequence(Completion& c) {
  const auto* data = c.sizes(0);
  const int64_t axis = c.a.integer("axis");
  if (c.has(1) && data && data->size() > 1 && (axis == 0 || axis == 1)) c.set(c.in[1], {(*data)[1 - axis]});
}

const Row kRows[] = {
    {.names = "scatter_nd _npi_scatter_nd",
     .operands = "data indices",
     .attrs = "shape:shape",
     .body = scatter_nd,
     .mixed = true},
    {.names = "_contrib_index_copy _npx_index_copy",
     .operands = "old_tensor index_vector new_tensor",
     .body = index_copy,
     .mixed = true},
    {.names = "_ravel_multi_index", .attrs = "shape:shape", .body = ravel},
    {.names = "_unravel_index", .attrs = "shape:shape", .body = unravel},
    {.names = "_contrib_index_array", .attrs = "axes:shape?=None", .body = index_array, .mixed = true},
    {.names = "Embedding _npx_embedding _contrib_SparseEmbedding",
     .operands = "data weight",
     .attrs =
         "input_dim:int output_dim:int dtype:dtype=float32 sparse_grad:any=False deterministic:any=False",
     .body = embedding,
     .complete = complete_embedding,
     .mixed = true},
    {.names = "take _npi_take",
     .operands = "a indices",
     .attrs = "axis:int=0 mode:text{clip,wrap}=clip",
     .body = take,
     .mixed = true},
    {.names = "pick choose_element_0index _npx_pick",
     .operands = "data index",
     .attrs = "axis:int?=-1 keepdims:bool=False mode:text{clip,wrap}=clip",
     .body = pick,
     .check = check_pick,
     .mixed = true},
    {.names = "batch_take", .operands = "a indices", .body = batch_take, .mixed = true},
    {.names = "one_hot _npx_one_hot",
     .operands = "indices",
     .attrs = "depth:int on_value:double=1.0 off_value:double=0.0 dtype:dtype=float32",
     .body = one_hot,
     .mixed = true},
    {.names = "gather_nd _npi_gather_nd _npx_gather_nd",
     .operands = "data indices",
     .body = gather_nd,
     .mixed = true},
    {.names = "SequenceMask _npx_sequence_mask",
     .operands = "data sequence_length?",
     .attrs = "use_sequence_length:bool=False value:float=0 axis:int=0",
     .body = sequence_mask,
     .complete = complete_sequence,
     .check = check_sequence,
     .mixed = true},
    {.names = "SequenceLast",
     .operands = "data sequence_length?",
     .attrs = "use_sequence_length:bool=False axis:int=0",
     .body = sequence_last,
     .complete = complete_sequence,
     .check = check_sequence,
     .mixed = true},
    {.names = "SequenceReverse",
     .operands = "data sequence_length?",
     .attrs = "use_sequence_length:bool=False axis:int=0",
     .body = sequence_reverse,
     .complete = complete_sequence,
     .check = check_sequence,
     .mixed = true},
};

}  // namespace
}  // namespace index_ops

std::span<const Row> index_rows() { return index_ops::kRows; }

}  // namespace tenon::mxnet

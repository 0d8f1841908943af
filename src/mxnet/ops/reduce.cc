// Rows that fold axes, and rows that order elements. MXNet's older operators have no scalars: a result of all elements
// has shape [1].
#include <algorithm>

#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace reduce_ops {
namespace {

bool is_np(const Call& c) { return c.node.op.starts_with("_np"); }

// The axes to fold, by the attribute of the given name (null: all) and, where the row has it, exclude.
Dims folded_axes(Call& c, int rank, const char* name, bool exclude) {
  std::vector<bool> fold(rank);
  const auto given = !name || c.a.is_none(name) ? std::vector<int64_t>() : c.a.ints(name);
  for (const int64_t axis : given) fold.at(c.axis(axis, rank)) = true;
  if (given.empty())
    fold.assign(rank, true);
  else if (exclude)
    fold.flip();
  Dims axes;
  for (int i = 0; i < rank; ++i)
    if (fold[i]) axes.push_back(Dim(i));
  return axes;
}

// Folds and gives the result the shape that MXNet gives it.
ValueId fold(Call& c, OpId op, ValueId x, const Dims& axes) {
  const bool keepdims = c.a.flag("keepdims");
  if (axes.empty()) return x;  // everything is excluded, or x is a scalar
  const ValueId y = c(op, {x}, {{"axes", axes}, {"keepdims", keepdims}});
  return c.rank(y) == 0 && !is_np(c) ? c.reshape(y, {Dim(1)}) : y;
}

template <OpId op>
Values reduce(Call& c) {
  const ValueId x = c.in[0];
  return {fold(c, op, x, folded_axes(c, c.rank(x), "axis", c.a.flag("exclude")))};
}
template <OpId op, int neutral>
Values without_nan(Call& c) {
  const ValueId x = c.in[0];
  c.in[0] = c(ops::where, {c(ops::isnan, {x}), c.like(x, neutral), x});
  return reduce<op>(c);
}

Values norm(Call& c) {
  ValueId x = c.in[0];
  const Dims axes = folded_axes(c, c.rank(x), "axis", false);
  if (!c.a.is_none("out_dtype")) x = c.cast(x, c.a.dtype("out_dtype"));
  if (c.a.integer("ord") == 1) return {fold(c, ops::sum, c(ops::abs, {x}), axes)};
  return {c(ops::sqrt, {fold(c, ops::sum, c(ops::square, {x}), axes)})};
}
Status check_norm(const Ask& ask) {
  const int64_t order = ask.a.integer("ord");
  return order == 1 || order == 2 ? Status() : unsupported("only ord=1 and ord=2 are translated");
}

ValueId flat(Call& c, ValueId x) { return c.reshape(x, {c.product(c.shape(x), 0, c.shape(x).size())}); }

template <OpId op>
Values arg(Call& c) {
  ValueId x = c.in[0];
  const DType dtype = is_np(c) ? DType::i64 : c.dtype(x);
  const bool all = c.a.is_none("axis"), keepdims = c.a.flag("keepdims");
  const int rank = c.rank(x), axis = all ? 0 : c.axis(c.a.integer("axis"), rank);
  if (all) x = flat(c, x);
  ValueId y = c(op, {x}, {{"axis", Dim(axis)}, {"keepdims", keepdims && !all}});
  if (all && keepdims)
    y = c.reshape(y, Dims(rank, Dim(1)));
  else if (c.rank(y) == 0 && !is_np(c))
    y = c.reshape(y, {Dim(1)});
  return {c.cast(y, dtype)};
}
Values argmax_channel(Call& c) {
  const ValueId y = c(ops::argmax, {c.in[0]}, {{"axis", Dim(1)}});
  return {c.cast(y, c.dtype(c.in[0]))};
}

Values cumsum(Call& c) {
  ValueId x = c.in[0];
  if (!c.a.is_none("dtype")) x = c.cast(x, c.a.dtype("dtype"));
  if (c.a.is_none("axis")) return {c(ops::cumsum, {flat(c, x)}, {{"axis", Dim(0)}})};
  return {c(ops::cumsum, {x}, {{"axis", Dim(c.axis(c.a.integer("axis"), c.rank(x)))}})};
}

Values moments(Call& c) {
  const ValueId x = c.in[0];
  const Dims axes = folded_axes(c, c.rank(x), "axes", false);
  auto shaped = [&](ValueId v) { return c.rank(v) == 0 ? c.reshape(v, {Dim(1)}) : v; };
  const bool keepdims = c.a.flag("keepdims");
  const ValueId mean = c(ops::mean, {x}, {{"axes", axes}, {"keepdims", keepdims}});
  const ValueId var = c(ops::var, {x}, {{"axes", axes}, {"correction", 0.0}, {"keepdims", keepdims}});
  return {shaped(mean), shaped(var)};
}
int two(const Attrs&) { return 2; }

// NumPy's reductions: dtype is that of the sum, and of the result.
template <OpId op>
Values np_reduce(Call& c) {
  ValueId x = c.in[0];
  if (!c.a.is_none("dtype"))
    x = c.cast(x, c.a.dtype("dtype"));
  else if (!is_float(c.dtype(x)))
    x = c.cast(x, op == ops::mean ? DType::f32 : DType::i64);
  return {fold(c, op, x, folded_axes(c, c.rank(x), "axis", false))};
}
template <OpId op>
Values np_extreme(Call& c) {
  return {fold(c, op, c.in[0], folded_axes(c, c.rank(c.in[0]), "axis", false))};
}
Status check_initial(const Ask& ask) {
  return ask.a.is_none("initial") ? Status() : unsupported("initial is not translated");
}
template <bool root>
Values np_var(Call& c) {
  ValueId x = c.in[0];
  if (!c.a.is_none("dtype"))
    x = c.cast(x, c.a.dtype("dtype"));
  else if (!is_float(c.dtype(x)))
    x = c.cast(x, DType::f32);
  const Dims axes = folded_axes(c, c.rank(x), "axis", false);
  const ValueId var = c(ops::var, {x},
                        {{"axes", axes},
                         {"correction", static_cast<double>(c.a.integer("ddof"))},
                         {"keepdims", c.a.flag("keepdims")}});
  return {root ? c(ops::sqrt, {var}) : var};
}

// Sums of all elements, or whether all are finite, of each operand: numbers of f32.
ValueId number_of_all(Call& c, OpId op, ValueId v) {
  return c.reshape(c(op, {v}, {{"axes", folded_axes(c, c.rank(v), nullptr, false)}}), {Dim(1)});
}
Values all_finite(Call& c) {
  ValueId y = kNoValue;
  for (const ValueId v : c.in) {
    const ValueId one = number_of_all(c, ops::all, c(ops::isfinite, {v}));
    y = y == kNoValue ? one : c(ops::logical_and, {y, one});
  }
  return {c.cast(y, DType::f32)};
}
Values sums_of_squares(Call& c) {
  std::vector<ValueId> sums;
  for (const ValueId v : c.in)
    sums.push_back(number_of_all(c, ops::sum, c(ops::square, {c.cast(v, DType::f32)})));
  return {sums.size() == 1 ? sums[0] : c(ops::concat, sums, {{"axis", Dim(0)}})};
}
Values all_close(Call& c) {
  const ValueId x = c.in[0], y = c.in[1];
  auto number = [&](const char* name) { return c.like(x, c.a.number(name)); };
  const ValueId bound = c(ops::add, {number("atol"), c(ops::mul, {number("rtol"), c(ops::abs, {y})})});
  const ValueId near = c(ops::le, {c(ops::abs, {c(ops::sub, {x, y})}), bound});
  ValueId close = c(ops::logical_or, {near, c(ops::eq, {x, y})});
  if (c.a.flag("equal_nan"))
    close = c(ops::logical_or, {close, c(ops::logical_and, {c(ops::isnan, {x}), c(ops::isnan, {y})})});
  return {c.reshape(c.cast(number_of_all(c, ops::all, close), DType::u8), {})};
}
// Rows of scores and a class for each: minus the sum of the logarithms of the classes' probabilities.
Values softmax_cross_entropy(Call& c) {
  const ValueId scores = c(ops::log_softmax, {c.in[0]}, {{"axis", Dim(1)}});
  const ValueId label = c.reshape(c.cast(c.in[1], DType::i64), {c.shape(c.in[1]).at(0), Dim(1)});
  const ValueId picked = c(ops::take_along, {scores, label}, {{"axis", Dim(1)}, {"wrap", false}});
  return {c(ops::neg, {number_of_all(c, ops::sum, picked)})};
}

// The mean, or that of elements which count with a weight; `returned` adds the sum of the weights.
Values average(Call& c) {
  ValueId x = c.in[0];
  if (!is_float(c.dtype(x))) x = c.cast(x, DType::f32);
  const Dims axes = folded_axes(c, c.rank(x), "axis", false);
  auto total = [&](ValueId v) { return c(ops::sum, {v}, {{"axes", axes}}); };
  ValueId weights = c.full(c.shape(x), c.dtype(x), 1);
  if (c.a.flag("weighted")) {
    weights = c.in.at(1);
    if (c.rank(weights) == 1 && c.rank(x) > 1 && axes.size() == 1) {
      Dims along(static_cast<size_t>(c.rank(x)), Dim(1));
      along[static_cast<size_t>(axes[0].value())] = c.shape(weights)[0];
      weights = c.reshape(weights, along);
    }
    weights = c(ops::expand, {c.cast(weights, c.dtype(x))}, {{"shape", c.shape(x)}});
  }
  const ValueId sum = total(weights);
  Values out = {c(ops::div, {total(c(ops::mul, {x, weights})), sum})};
  if (c.a.flag("returned")) out.push_back(sum);
  return out;
}
int average_outputs(const Attrs& a) { return a.flag("returned") ? 2 : 1; }
Status check_average(const Ask& ask) {
  return ask.node.inputs.size() == (ask.a.flag("weighted") ? 2u : 1u)
             ? Status()
             : invalid("weighted does not fit the number of operands");
}

// The indices that order x along `axis`, the first `count` of them (0: all).
ValueId order(Call& c, ValueId x, int axis, int64_t count, bool ascending) {
  const Dim size = c.shape(x)[axis];
  const Dim end = count > 0 ? Dim(count) : size;
  return c(ops::sort_order, {x},
           {{"axis", Dim(axis)}, {"start", Dim(0)}, {"end", end}, {"descending", !ascending}});
}

// Of no axis, the elements are one row.
std::pair<ValueId, int> row_of(Call& c) {
  const ValueId x = c.in[0];
  if (c.a.is_none("axis")) return {flat(c, x), 0};
  return {x, c.axis(c.a.integer("axis"), c.rank(x))};
}

Values sort(Call& c) {
  const auto [x, axis] = row_of(c);
  const ValueId indices = order(c, x, axis, 0, c.a.flag("is_ascend"));
  return {c(ops::take_along, {x, indices}, {{"axis", Dim(axis)}})};
}
Values argsort(Call& c) {
  const auto [x, axis] = row_of(c);
  return {c.cast(order(c, x, axis, 0, c.a.flag("is_ascend")), c.a.dtype("dtype"))};
}
Values topk(Call& c) {
  const auto [x, axis] = row_of(c);
  int64_t count = c.a.integer("k");
  if (const Dim size = c.shape(x)[axis]; size.is_const() && count > size.value())
    throw StatusError(invalid("k is above the size of the axis"));
  const ValueId indices = order(c, x, axis, std::max<int64_t>(count, 0), c.a.flag("is_ascend"));
  const std::string_view kind = c.a.text("ret_typ");
  Values out;
  if (kind != "indices") out.push_back(c(ops::take_along, {x, indices}, {{"axis", Dim(axis)}}));
  if (kind != "value") out.push_back(c.cast(indices, c.a.dtype("dtype")));
  return out;
}
int topk_outputs(const Attrs& a) { return a.text("ret_typ") == "both" ? 2 : 1; }

constexpr std::string_view kReduce = "axis:shape?=None keepdims:bool=False exclude:bool=False";
constexpr std::string_view kNpReduce =
    "axis:shape?=None dtype:dtype?=None keepdims:bool=False initial:double?=None";

const Row kRows[] = {
    {.names = "sum sum_axis", .attrs = kReduce, .body = reduce<ops::sum>},
    {.names = "mean", .attrs = kReduce, .body = reduce<ops::mean>},
    {.names = "prod", .attrs = kReduce, .body = reduce<ops::prod>},
    {.names = "max max_axis", .attrs = kReduce, .body = reduce<ops::max>},
    {.names = "min min_axis", .attrs = kReduce, .body = reduce<ops::min>},
    {.names = "nansum", .attrs = kReduce, .body = without_nan<ops::sum, 0>},
    {.names = "nanprod", .attrs = kReduce, .body = without_nan<ops::prod, 1>},
    {.names = "norm",
     .attrs = "ord:int=2 axis:shape?=None out_dtype:dtype?=None keepdims:bool=False",
     .body = norm,
     .check = check_norm},
    {.names = "argmax _npi_argmax", .attrs = "axis:int?=None keepdims:bool=False", .body = arg<ops::argmax>},
    {.names = "argmin _npi_argmin", .attrs = "axis:int?=None keepdims:bool=False", .body = arg<ops::argmin>},
    {.names = "argmax_channel", .body = argmax_channel},
    {.names = "cumsum _np_cumsum",
     .operands = "a",
     .attrs = "axis:int?=None dtype:dtype?=None",
     .body = cumsum},
    {.names = "moments", .attrs = "axes:shape?=None keepdims:bool=False", .body = moments, .outputs = two},
    {.names = "_np_sum",
     .operands = "a",
     .attrs = kNpReduce,
     .body = np_reduce<ops::sum>,
     .check = check_initial},
    {.names = "_np_prod",
     .operands = "a",
     .attrs = kNpReduce,
     .body = np_reduce<ops::prod>,
     .check = check_initial},
    {.names = "_npi_mean",
     .operands = "a",
     .attrs = kNpReduce,
     .body = np_reduce<ops::mean>,
     .check = check_initial},
    {.names = "_np_max",
     .operands = "a",
     .attrs = "axis:shape?=None keepdims:bool=False initial:double?=None",
     .body = np_extreme<ops::max>,
     .check = check_initial},
    {.names = "_np_min",
     .operands = "a",
     .attrs = "axis:shape?=None keepdims:bool=False initial:double?=None",
     .body = np_extreme<ops::min>,
     .check = check_initial},
    {.names = "_np_any", .attrs = "axis:shape?=None keepdims:bool=False", .body = np_extreme<ops::any>},
    {.names = "_np_all", .attrs = "axis:shape?=None keepdims:bool=False", .body = np_extreme<ops::all>},
    {.names = "_npi_var",
     .operands = "a",
     .attrs = "axis:shape?=None dtype:dtype?=None ddof:int=0 keepdims:bool=False",
     .body = np_var<false>},
    {.names = "_npi_std",
     .operands = "a",
     .attrs = "axis:shape?=None dtype:dtype?=None ddof:int=0 keepdims:bool=False",
     .body = np_var<true>},
    {.names = "all_finite", .attrs = "init_output:any=True", .body = all_finite},
    {.names = "multi_all_finite",
     .operands = "data*",
     .attrs = "num_arrays:int=1 init_output:any=True",
     .body = all_finite,
     .mixed = true},
    {.names = "multi_sum_sq",
     .operands = "data*",
     .attrs = "num_arrays:int",
     .body = sums_of_squares,
     .mixed = true},
    {.names = "_contrib_allclose",
     .operands = "a b",
     .attrs = "rtol:float=1e-05 atol:float=1e-08 equal_nan:bool=True",
     .body = all_close},
    {.names = "softmax_cross_entropy", .operands = "data label", .body = softmax_cross_entropy},
    {.names = "_npi_average",
     .operands = "a weights?",
     .attrs = "axis:shape?=None returned:bool=False weighted:bool=True",
     .body = average,
     .check = check_average,
     .outputs = average_outputs,
     .hidden = 1},
    {.names = "sort _npi_sort", .attrs = "axis:int?=-1 is_ascend:bool=True", .body = sort},
    {.names = "argsort _npi_argsort",
     .attrs = "axis:int?=-1 is_ascend:bool=True dtype:dtype=float32",
     .body = argsort},
    {.names = "topk _npx_topk",
     .attrs = "axis:int?=-1 k:int=1 ret_typ:text{both,indices,value}=indices is_ascend:bool=False "
              "dtype:dtype=float32",
     .body = topk,
     .outputs = topk_outputs},
};

}  // namespace
}  // namespace reduce_ops

std::span<const Row> reduce_rows() { return reduce_ops::kRows; }

}  // namespace tenon::mxnet

// Rows without operands, and rows that read only the shape of theirs.
#include <cmath>

#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace source_ops {
namespace {

// The shape that the node states; in MXNet's older operators a size of 0 is one to be inferred.
void complete_filled(Completion& c, bool np) {
  if (!c.a.is_none("dtype")) c.set(c.out[0], c.a.dtype("dtype"));
  if (c.a.is_none("shape")) return;
  std::vector<Size> shape;
  for (const std::optional<int64_t>& n : c.a.tuple("shape"))
    shape.push_back(n && (np ? *n >= 0 : *n > 0) ? Size(Dim(*n)) : Size());
  if (np || !shape.empty()) c.set(c.out[0], shape);
}
void complete_old(Completion& c) { complete_filled(c, false); }
void complete_np(Completion& c) { complete_filled(c, true); }

ValueId filled(Call& c, double value) {
  const TensorType type = c.out[0].type();
  return c.full(type.shape, type.dtype, value);
}
template <int value>
Values constant(Call& c) {
  return {filled(c, value)};
}
Values full(Call& c) { return {filled(c, c.a.number("value"))}; }

Values full_like(Call& c) {
  const DType dtype = c.a.is_none("dtype") ? c.dtype(c.in[0]) : c.a.dtype("dtype");
  return {c.full(c.shape(c.in[0]), dtype, c.a.number("fill_value"))};
}

// start + step * (i / repeat) for i below n.
ValueId ramp(Call& c, Dim n, DType dtype, double start, double step, int64_t repeat) {
  if (repeat < 1) throw StatusError(invalid("repeat is " + std::to_string(repeat)));
  auto number = [&](double x) {
    return x == std::trunc(x) && std::abs(x) < 0x1p53 ? Scalar::of(static_cast<int64_t>(x)) : Scalar::of(x);
  };
  if (repeat == 1)
    return c(ops::iota, {},
             {{"shape", Dims{n}}, {"dtype", dtype}, {"start", number(start)}, {"step", number(step)}});
  const ValueId i = c(ops::iota, {}, {{"shape", Dims{n}}, {"dtype", DType::i64}});
  const ValueId k = c.cast(c(ops::floor_div, {i, c.like(i, static_cast<double>(repeat))}), dtype);
  return c(ops::add, {c(ops::mul, {k, c.like(k, step)}), c.like(k, start)});
}

Values arange(Call& c) {
  double start = c.a.number("start"), stop;
  const double step = c.a.number("step");
  const int64_t repeat = c.a.integer("repeat");
  if (c.a.is_none("stop")) {
    stop = start;
    start = 0;
  } else {
    stop = c.a.number("stop");
  }
  const double count = std::ceil((stop - start) / step);
  if (!(count >= 0 && count < 0x1p40) || repeat < 1 || repeat > 1 << 20)
    throw StatusError(invalid("an empty or endless range"));
  return {ramp(c, Dim(static_cast<int64_t>(count) * repeat), c.a.dtype("dtype"), start, step, repeat)};
}
Status check_arange(const Ask& ask) {
  return ask.a.flag("infer_range") ? unsupported("infer_range is not translated") : Status();
}

Values arange_like(Call& c) {
  const ValueId x = c.in[0];
  const Sizes shape = c.shape(x);
  const double start = c.a.number("start"), step = c.a.number("step");
  const int64_t repeat = c.a.integer("repeat");
  if (!c.a.is_none("axis")) {
    const int axis = c.axis(c.a.integer("axis"), c.rank(x));
    return {ramp(c, shape[axis], c.dtype(x), start, step, repeat)};
  }
  return {c.reshape(ramp(c, c.product(shape, 0, shape.size()), c.dtype(x), start, step, repeat), shape)};
}

Values eye(Call& c) {
  const int64_t n = c.a.integer("N"), m = c.a.integer("M");
  const Dim rows(n), columns(m > 0 ? m : n);
  const ValueId i =
      c(ops::iota, {},
        {{"shape", Dims{rows, Dim(1)}}, {"dtype", DType::i64}, {"start", Scalar::of(c.a.integer("k"))}});
  const ValueId j =
      c(ops::iota, {}, {{"shape", Dims{Dim(1), columns}}, {"dtype", DType::i64}, {"axis", Dim(1)}});
  return {c.cast(c(ops::eq, {i, j}), c.a.dtype("dtype"))};
}

Values identity(Call& c) {
  const auto shape = c.a.ints("shape");
  if (shape.size() != 2) throw StatusError(invalid("needs a shape of two sizes"));
  auto along = [&](int axis) {
    Dims sizes(2, Dim(1));
    sizes[static_cast<size_t>(axis)] = Dim(shape[static_cast<size_t>(axis)]);
    return c(ops::iota, {}, {{"shape", sizes}, {"dtype", DType::i64}, {"axis", Dim(axis)}});
  };
  return {c.cast(c(ops::eq, {along(0), along(1)}), c.a.dtype("dtype"))};
}

// The coordinates of a grid: [number of axes, sizes...].
Values grid_indices(Call& c) {
  Dims shape = {Dim(1)};
  for (const int64_t n : c.a.ints("dimensions")) shape.push_back(Dim(n));
  std::vector<ValueId> rows;
  for (int64_t i = 1; i < static_cast<int64_t>(shape.size()); ++i)
    rows.push_back(c(ops::iota, {}, {{"shape", shape}, {"dtype", c.a.dtype("dtype")}, {"axis", Dim(i)}}));
  if (rows.empty()) throw StatusError(invalid("needs sizes"));
  return {c(ops::concat, rows, {{"axis", Dim(0)}})};
}

// base^(start ... stop) in equal steps.
Values logspace(Call& c) {
  const int64_t count = c.a.integer("num"), steps = count - (c.a.flag("endpoint") ? 1 : 0);
  if (count < 1 || count > 1 << 30) throw StatusError(invalid("num is " + std::to_string(count)));
  const double start = c.a.number("start");
  const double step = steps > 0 ? (c.a.number("stop") - start) / static_cast<double>(steps) : 0;
  const ValueId i = c(ops::iota, {}, {{"shape", Dims{Dim(count)}}, {"dtype", DType::f64}});
  const ValueId power = c(ops::add, {c(ops::mul, {i, c.like(i, step)}), c.like(i, start)});
  return {c.cast(c(ops::pow, {c.like(i, c.a.number("base")), power}), c.a.dtype("dtype"))};
}

// Windows of M samples: a sum of cosines of 0, 1 and 2 periods.
template <int zeroth, int first, int second>
Values cosine_window(Call& c) {
  const int64_t count = c.a.is_none("M") ? 0 : c.a.integer("M");
  if (count < 1 || count > 1 << 30) throw StatusError(unsupported("M is " + std::to_string(count)));
  if (count == 1) return {c.full({Dim(1)}, c.a.dtype("dtype"), 1)};
  const ValueId i = c(ops::iota, {}, {{"shape", Dims{Dim(count)}}, {"dtype", DType::f64}});
  auto wave = [&](int hundredths, int periods) {
    const double angle = 2 * M_PI * periods / static_cast<double>(count - 1);
    return c(ops::mul, {c(ops::cos, {c(ops::mul, {i, c.like(i, angle)})}), c.like(i, hundredths / 100.0)});
  };
  ValueId y = c(ops::sub, {c.like(i, zeroth / 100.0), wave(first, 1)});
  if (second != 0) y = c(ops::add, {y, wave(second, 2)});
  return {c.cast(y, c.a.dtype("dtype"))};
}

Values shape_array(Call& c) {
  std::vector<ValueId> sizes;
  for (const Dim d : c.shape(c.in[0])) sizes.push_back(c.reshape(c.b.size(d, DType::i64), {Dim(1)}));
  if (sizes.empty()) return {c.full({Dim(0)}, DType::i64, 0)};
  return {c(ops::concat, sizes, {{"axis", Dim(0)}})};
}
Values size_array(Call& c) {
  const Sizes shape = c.shape(c.in[0]);
  return {c.reshape(c.b.size(c.product(shape, 0, shape.size()), DType::i64), {Dim(1)})};
}

constexpr std::string_view kFilled = "shape:shape?=() ctx:any= dtype:dtype=float32";

constexpr std::string_view kWindow = "M:int?=None ctx:any= dtype:dtype=float32";

const Row kRows[] = {
    {.names = "_zeros",
     .operands = "",
     .attrs = kFilled,
     .body = constant<0>,
     .complete = complete_old,
     .from_output = true},
    {.names = "_ones",
     .operands = "",
     .attrs = kFilled,
     .body = constant<1>,
     .complete = complete_old,
     .from_output = true},
    {.names = "_full",
     .operands = "",
     .attrs = "shape:shape?=None ctx:any= dtype:dtype=float32 value:double",
     .body = full,
     .complete = complete_old,
     .from_output = true},
    {.names = "_npi_zeros",
     .operands = "",
     .attrs = kFilled,
     .body = constant<0>,
     .complete = complete_np,
     .from_output = true},
    {.names = "_npi_ones",
     .operands = "",
     .attrs = kFilled,
     .body = constant<1>,
     .complete = complete_np,
     .from_output = true},
    {.names = "_npi_full",
     .operands = "",
     .attrs = "shape:shape?=None ctx:any= dtype:dtype=float32 value:double",
     .body = full,
     .complete = complete_np,
     .from_output = true},
    {.names = "_npi_full_like",
     .operands = "a",
     .attrs = "fill_value:double ctx:any= dtype:dtype?=None",
     .body = full_like},
    {.names = "_arange _npi_arange",
     .operands = "",
     .attrs = "start:double stop:double?=None step:double=1.0 repeat:int=1 infer_range:bool=False ctx:any= "
              "dtype:dtype=float32",
     .body = arange,
     .check = check_arange},
    {.names = "_contrib_arange_like _npx_arange_like",
     .attrs = "start:double=0.0 step:double=1.0 repeat:int=1 ctx:any= axis:int?=None",
     .body = arange_like},
    {.names = "_eye _npi_eye",
     .operands = "",
     .attrs = "N:int M:int=0 k:int=0 ctx:any= dtype:dtype=float32",
     .body = eye},
    {.names = "_npi_identity",
     .operands = "",
     .attrs = "shape:shape=() ctx:any= dtype:dtype=float32",
     .body = identity},
    {.names = "_npi_indices",
     .operands = "",
     .attrs = "dimensions:shape dtype:dtype=int32 ctx:any=",
     .body = grid_indices},
    {.names = "_npi_logspace",
     .operands = "",
     .attrs = "start:double stop:double num:int endpoint:bool=True base:double=10.0 ctx:any= "
              "dtype:dtype=float32",
     .body = logspace},
    {.names = "_npi_hanning", .operands = "", .attrs = kWindow, .body = cosine_window<50, 50, 0>},
    {.names = "_npi_hamming", .operands = "", .attrs = kWindow, .body = cosine_window<54, 46, 0>},
    {.names = "_npi_blackman", .operands = "", .attrs = kWindow, .body = cosine_window<42, 50, 8>},
    {.names = "shape_array _npx_shape_array", .body = shape_array, .mixed = true},
    {.names = "size_array", .body = size_array, .mixed = true},
};

}  // namespace
}  // namespace source_ops

std::span<const Row> source_rows() { return source_ops::kRows; }

}  // namespace tenon::mxnet

// Rows of NumPy's elementwise operators that MXNet's older vocabulary lacks, of a tensor with a tensor and with a number. Integers
// that meet a function of real numbers become f32.
#include <cmath>
#include <limits>

#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace numpy_ops {
namespace {

ValueId real(Call& c, ValueId v) { return is_float(c.dtype(v)) ? v : c.cast(v, DType::f32); }
ValueId number(Call& c, ValueId v) { return c.like(v, c.a.number("scalar")); }

// A function of two values as the body of a row: of two tensors, of a tensor and the number, of the number and a tensor.
using Binary = ValueId (*)(Call&, ValueId, ValueId);
template <Binary f>
Values tensors(Call& c) {
  return {f(c, c.in[0], c.in[1])};
}
template <Binary f>
Values right(Call& c) {
  return {f(c, c.in[0], number(c, c.in[0]))};
}
template <Binary f>
Values left(Call& c) {
  return {f(c, number(c, c.in[0]), c.in[0])};
}
template <Binary f>
Values real_tensors(Call& c) {
  return {f(c, real(c, c.in[0]), real(c, c.in[1]))};
}
// With a number, integers are computed as f64 and truncated back.
template <Values (*body)(Call&)>
Values of_real(Call& c) {
  const DType dtype = c.dtype(c.in[0]);
  if (!is_float(dtype)) c.in[0] = c.cast(c.in[0], DType::f64);
  return {c.cast(body(c)[0], dtype)};
}

// Whether the sign bit of a float is set.
ValueId negative(Call& c, ValueId v) {
  const DType bits = size_of(c.dtype(v)) == 8   ? DType::i64
                     : size_of(c.dtype(v)) == 4 ? DType::i32
                                                : DType::i16;
  const ValueId whole = c(ops::bitcast, {v}, {{"dtype", bits}});
  return c(ops::lt, {whole, c.like(whole, 0)});
}
ValueId copysign(Call& c, ValueId x, ValueId y) {
  const ValueId size = c(ops::abs, {x});
  return c(ops::where, {negative(c, y), c(ops::neg, {size}), size});
}
ValueId ldexp(Call& c, ValueId x, ValueId y) { return c(ops::mul, {x, c(ops::pow, {c.like(y, 2), y})}); }
template <OpId op>
ValueId apply(Call& c, ValueId x, ValueId y) {
  return c(op, {x, y});
}

template <bool positive>
Values infinite(Call& c) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const ValueId x = real(c, c.in[0]);
  return {c(ops::eq, {x, c.like(x, positive ? kInfinity : -kInfinity)})};
}

// The largest number of a float dtype.
double largest(DType dtype) {
  if (dtype == DType::f64) return std::numeric_limits<double>::max();
  return dtype == DType::f16 ? 65504 : std::numeric_limits<float>::max();
}
Values nan_to_num(Call& c) {
  ValueId x = c.in[0];
  if (!is_float(c.dtype(x))) return {x};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double most = largest(c.dtype(x));
  auto bound = [&](const char* name, double otherwise) {
    return c.like(x, c.a.is_none(name) ? otherwise : c.a.number(name));
  };
  const ValueId finite = c(ops::where, {c(ops::eq, {x, c.like(x, kInfinity)}), bound("posinf", most), x});
  const ValueId low = c(ops::where, {c(ops::eq, {x, c.like(x, -kInfinity)}), bound("neginf", -most), finite});
  return {c(ops::where, {c(ops::isnan, {x}), c.like(x, c.a.number("nan")), low})};
}

// Rounds to a number of decimals, a half to even.
Values around(Call& c) {
  const ValueId x = c.in[0];
  const auto decimals = static_cast<double>(c.a.integer("decimals"));
  if (!is_float(c.dtype(x))) {
    if (decimals < 0) throw StatusError(unsupported("negative decimals of integers are not translated"));
    return {x};
  }
  if (decimals == 0) return {c(ops::round, {x})};
  const ValueId scale = c.like(x, std::pow(10.0, decimals));
  return {c(ops::div, {c(ops::round, {c(ops::mul, {x, scale})}), scale})};
}

Values cube_root(Call& c) {
  const ValueId x = real(c, c.in[0]);
  const ValueId root = c(ops::pow, {c(ops::abs, {x}), c.like(x, 1.0 / 3)});
  return {c(ops::mul, {c(ops::sign, {x}), root})};
}
constexpr float kPi = 3.14159265358979323846F;
template <bool to_degrees>
Values angle(Call& c) {
  constexpr float kFactor = to_degrees ? 180.0F / kPi : kPi / 180.0F;
  const ValueId x = real(c, c.in[0]);
  return {c(ops::mul, {x, c.like(x, static_cast<double>(kFactor))})};
}

template <bool number_first>
Values where_scalar(Call& c) {
  const ValueId x = c.in[1], scalar = number(c, x);
  return {c(ops::where, {truth(c, c.in[0]), number_first ? scalar : x, number_first ? x : scalar})};
}
Values where_scalars(Call& c) {
  auto literal = [&](const char* name) { return c.full({}, DType::f32, c.a.number(name)); };
  return {c(ops::where, {truth(c, c.in[0]), literal("x"), literal("y")})};
}

// The polynomial with the coefficients p, the highest power first, at x.
Values polyval(Call& c) {
  const Sizes shape = c.shape(c.in[0]);
  if (shape.size() != 1 || !shape[0].is_const() || shape[0].value() < 1 || shape[0].value() > 256)
    throw StatusError(unsupported("only 1 to 256 coefficients are translated"));
  const ValueId x = c.in[1];
  ValueId y = kNoValue;
  for (int64_t i = 0; i < shape[0].value(); ++i) {
    const ValueId p = c.reshape(c.slice(c.in[0], 0, Dim(i), Dim(i + 1)), {});
    y = i == 0 ? c(ops::expand, {p}, {{"shape", c.shape(x)}}) : c(ops::add, {c(ops::mul, {y, x}), p});
  }
  return {y};
}

using Body = Values (*)(Call&);
constexpr Row one(std::string_view names, Body body) {
  return {.names = names, .body = body, .complete = same_shapes};
}
constexpr Row two(std::string_view names, Body body) {
  return {.names = names, .operands = "lhs rhs", .body = body};
}
constexpr Row scalar(std::string_view names, Body body) {
  return {
      .names = names, .attrs = "scalar:double=1.0 is_int:bool=True", .body = body, .complete = same_shapes};
}

const Row kRows[] = {
    one("_npi_cbrt", cube_root),
    one("_npi_degrees", angle<true>),
    one("_npi_radians", angle<false>),
    one("_npi_isposinf", infinite<true>),
    one("_npi_isneginf", infinite<false>),
    {.names = "_npi_nan_to_num",
     .attrs = "copy:any=True nan:double=0.0 posinf:double?=None neginf:double?=None",
     .body = nan_to_num,
     .complete = same_shapes},
    {.names = "_npi_around", .attrs = "decimals:int=0", .body = around, .complete = same_shapes},
    two("_npi_copysign", real_tensors<copysign>),
    two("_npi_ldexp", real_tensors<ldexp>),
    two("_npi_lcm", tensors<apply<ops::lcm>>),
    scalar("_npi_copysign_scalar", of_real<right<copysign>>),
    scalar("_npi_rcopysign_scalar", of_real<left<copysign>>),
    scalar("_npi_ldexp_scalar", of_real<right<ldexp>>),
    scalar("_npi_rldexp_scalar", of_real<left<ldexp>>),
    scalar("_npi_arctan2_scalar", of_real<right<apply<ops::atan2>>>),
    scalar("_npi_rarctan2_scalar", of_real<left<apply<ops::atan2>>>),
    scalar("_npi_lcm_scalar", right<apply<ops::lcm>>),
    scalar("_npi_bitwise_and_scalar", right<apply<ops::bit_and>>),
    scalar("_npi_bitwise_or_scalar", right<apply<ops::bit_or>>),
    scalar("_npi_bitwise_xor_scalar", right<apply<ops::bit_xor>>),
    {.names = "_npi_where_lscalar",
     .operands = "condition x",
     .attrs = "scalar:double=0.0",
     .body = where_scalar<true>,
     .mixed = true},
    {.names = "_npi_where_rscalar",
     .operands = "condition y",
     .attrs = "scalar:double=0.0",
     .body = where_scalar<false>,
     .mixed = true},
    {.names = "_npi_where_scalar2",
     .operands = "condition",
     .attrs = "x:double=0.0 y:double=0.0",
     .body = where_scalars,
     .mixed = true},
    {.names = "_npi_polyval", .operands = "p x", .body = polyval},
};

}  // namespace
}  // namespace numpy_ops

std::span<const Row> numpy_rows() { return numpy_ops::kRows; }

}  // namespace tenon::mxnet

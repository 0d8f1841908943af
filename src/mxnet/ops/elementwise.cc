// Rows of elementwise operators of tensors. In MXNet's older operators (`exp`, `broadcast_add`) the result has the dtype
// of the operands, comparisons included; comparisons of NumPy's (`_npi_less`) give bool.
#include <limits>

#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace elementwise_ops {
namespace {

// One op of Tenon, for any dtype that it takes.
template <OpId op>
Values map(Call& c) {
  return {c(op, c.in)};
}
// A function of real numbers: integers are computed as f32 and truncated back.
template <OpId op>
Values math(Call& c) {
  return {in_math_type(c, op, c.in)};
}
// Integers give f32.
template <OpId op>
Values np_math(Call& c) {
  for (ValueId& v : c.in)
    if (!is_float(c.dtype(v))) v = c.cast(v, DType::f32);
  return {c(op, c.in)};
}
// The identity on integers.
template <OpId op>
Values rounding(Call& c) {
  return {is_float(c.dtype(c.in[0])) ? c(op, c.in) : c.in[0]};
}
template <OpId op>
Values compare(Call& c) {
  return {as_number(c, c(op, c.in), c.in[0])};
}
template <OpId op>
Values logical(Call& c) {
  return {as_number(c, c(op, {truth(c, c.in[0]), truth(c, c.in[1])}), c.in[0])};
}
template <ValueId (*f)(Call&, ValueId, ValueId)>
Values binary(Call& c) {
  return {f(c, c.in[0], c.in[1])};
}

Values copy(Call& c) { return {c.in[0]}; }

// Integers are computed as f64: in f32 erf(4) is 1.
Values error_function(Call& c) {
  const DType dtype = c.dtype(c.in[0]);
  const ValueId x = is_float(dtype) ? c.in[0] : c.cast(c.in[0], DType::f64);
  return {c.cast(c(ops::erf, {x}), dtype)};
}

// Rounds half away from zero: trunc(x), one further if what it cut is at least 1/2.
Values round_away(Call& c) {
  const ValueId x = c.in[0];
  if (!is_float(c.dtype(x))) return {x};
  const ValueId whole = c(ops::trunc, {x}), cut = c(ops::abs, {c(ops::sub, {x, whole})});
  const ValueId up = c.cast(c(ops::ge, {cut, c.like(x, 0.5)}), c.dtype(x));
  return {c(ops::add, {whole, c(ops::mul, {up, c(ops::sign, {x})})})};
}

// MXNet's rint rounds a half down: ceil(x - 1/2).
Values round_down(Call& c) {
  const ValueId x = c.in[0];
  if (!is_float(c.dtype(x))) return {x};
  const ValueId low = c(ops::floor, {x}), high = c(ops::ceil, {x});
  const ValueId nearer = c(ops::le, {c(ops::sub, {x, low}), c(ops::sub, {high, x})});
  return {c(ops::where, {nearer, low, high})};
}

ValueId real(Call& c) { return is_float(c.dtype(c.in[0])) ? c.in[0] : c.cast(c.in[0], DType::f32); }

Values cube_root(Call& c) {
  const ValueId x = real(c);
  const ValueId root = c(ops::pow, {c(ops::abs, {x}), c.like(x, 1.0 / 3)});
  return {c.cast(c(ops::mul, {c(ops::sign, {x}), root}), c.dtype(c.in[0]))};
}
Values inverse_cube_root(Call& c) {
  return {c.cast(c(ops::reciprocal, {cube_root(c)[0]}), c.dtype(c.in[0]))};
}
// MXNet's factors are quotients of f32 numbers.
constexpr float kPi = 3.14159265358979323846F;
template <bool to_degrees>
Values angle(Call& c) {
  constexpr float kFactor = to_degrees ? 180.0F / kPi : kPi / 180.0F;
  const ValueId x = real(c);
  return {c.cast(c(ops::mul, {x, c.like(x, static_cast<double>(kFactor))}), c.dtype(c.in[0]))};
}
Values softsign(Call& c) {
  const ValueId x = c.in[0];
  return {c(ops::div, {x, c(ops::add, {c.like(x, 1), c(ops::abs, {x})})})};
}
Values hard_sigmoid(Call& c) {
  const ValueId x = c.in[0];
  const ValueId line =
      c(ops::add, {c(ops::mul, {x, c.like(x, c.a.number("alpha"))}), c.like(x, c.a.number("beta"))});
  return {c(ops::clamp, {line, c.like(x, 0), c.like(x, 1)})};
}
Values logical_not(Call& c) {
  const ValueId x = c.in[0];
  return {as_number(c, c(ops::eq, {x, c.like(x, 0)}), x)};
}
Values np_logical_not(Call& c) { return {c(ops::logical_not, {truth(c, c.in[0])})}; }
// Floats take one clamp: its gradient at a bound is that of the result, as in MXNet.
Values clip(Call& c) {
  const ValueId x = c.in[0];
  if (is_float(c.dtype(x))) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto value = [&](const char* name, double none) {
      return c.like(x, c.a.is_none(name) ? none : c.a.number(name));
    };
    return {c(ops::clamp, {x, value("a_min", -kInfinity), value("a_max", kInfinity)})};
  }
  auto bound = [&](const char* name, OpId op, ValueId v) {
    return c.a.is_none(name) ? v : c(op, {v, c.like(x, c.a.number(name))});
  };
  return {bound("a_max", ops::minimum, bound("a_min", ops::maximum, x))};
}
Values gamma(Call& c) {
  // |gamma(x)| is exp(lgamma(x)); below 0 the sign changes at each integer, where gamma has poles.
  const ValueId x = real(c), whole = c(ops::floor, {x});
  const ValueId size = c(ops::exp, {c(ops::lgamma, {x})}), zero = c.like(x, 0);
  const ValueId below = c(ops::lt, {x, zero});
  const ValueId odd = c(ops::ne, {c(ops::remainder, {whole, c.like(x, 2)}), zero});
  const ValueId signed_size = c(ops::where, {c(ops::logical_and, {below, odd}), c(ops::neg, {size}), size});
  const ValueId pole = c(ops::logical_and, {below, c(ops::eq, {x, whole})});
  const ValueId nan = c.like(x, std::numeric_limits<double>::quiet_NaN());
  return {c.cast(c(ops::where, {pole, nan, signed_size}), c.dtype(c.in[0]))};
}
Values quadratic(Call& c) {
  const ValueId x = c.in[0];
  auto number = [&](const char* name) { return c.like(x, c.a.number(name)); };
  const ValueId line = c(ops::add, {c(ops::mul, {number("a"), x}), number("b")});
  return {c(ops::add, {c(ops::mul, {line, x}), number("c")})};
}
// The float operands in the widest (narrowest) of their dtypes.
Values cast_together(Call& c) {
  const bool narrow = c.a.flag("cast_narrow");
  std::optional<DType> dtype;
  for (const ValueId v : c.in) {
    const DType own = c.dtype(v);
    if (!is_float(own)) continue;
    if (!dtype || (narrow ? size_of(own) < size_of(*dtype) : size_of(own) > size_of(*dtype))) dtype = own;
  }
  for (ValueId& v : c.in)
    if (is_float(c.dtype(v))) v = c.cast(v, *dtype);
  return c.in;
}
int output_count(const Attrs& a) { return static_cast<int>(a.integer("num_outputs")); }
Status check_output_count(const Ask& ask) { return counts_operands(ask, "num_outputs"); }
Values cast(Call& c) { return {c.cast(c.in[0], c.a.dtype("dtype"))}; }
Values hypot(Call& c) {
  const ValueId x = c.in[0], y = c.in[1];
  return {in_math_type(c, ops::sqrt, {c(ops::add, {c(ops::square, {x}), c(ops::square, {y})})})};
}
Values add_all(Call& c) {
  ValueId sum = c.in[0];
  for (size_t i = 1; i < c.in.size(); ++i) sum = c(ops::add, {sum, c.in[i]});
  return {sum};
}
Values where(Call& c) {
  ValueId condition = truth(c, c.in[0]);
  const Sizes shape = c.shape(c.in[1]);
  // A vector chooses whole rows.
  if (c.rank(condition) == 1 && shape.size() > 1) {
    Dims column(shape.size(), Dim(1));
    column[0] = c.shape(condition)[0];
    condition = c.reshape(condition, column);
  }
  return {c(ops::where, {condition, c.in[1], c.in[2]})};
}
Values np_where(Call& c) { return {c(ops::where, {truth(c, c.in[0]), c.in[1], c.in[2]})}; }
Values smooth_l1(Call& c) {
  const DType dtype = c.dtype(c.in[0]);
  const ValueId x = real(c);
  const double scale = c.a.number("scalar"), square = scale * scale;
  const ValueId size = c(ops::abs, {x});
  const ValueId far = c(ops::gt, {size, c.like(x, 1 / square)});
  const ValueId line = c(ops::sub, {size, c.like(x, 0.5 / square)});
  const ValueId curve = c(ops::mul, {c(ops::square, {x}), c.like(x, 0.5 * square)});
  return {c.cast(c(ops::where, {far, line, curve}), dtype)};
}
template <int value>
Values filled(Call& c) {
  return {c.full(c.shape(c.in[0]), c.dtype(c.in[0]), value)};
}

using Body = Values (*)(Call&);
// Operands and result have one shape.
constexpr Row one(std::string_view names, Body body) {
  return {.names = names, .body = body, .complete = same_shapes};
}
constexpr Row two(std::string_view names, Body body) {
  return {.names = names, .operands = "lhs rhs", .body = body, .complete = same_shapes};
}
// Operands broadcast.
constexpr Row spread(std::string_view names, Body body) {
  return {.names = names, .operands = "lhs rhs", .body = body};
}

const Row kRows[] = {
    one("_copy identity _np_copy", copy),
    one("BlockGrad stop_gradient make_loss", copy),
    {.names = "MakeLoss",
     .attrs = "grad_scale:any=1.0 valid_thresh:any=0.0 normalization:any=null",
     .body = copy,
     .complete = same_shapes},
    one("relu _npx_relu", map<ops::relu>),
    one("sigmoid _npx_sigmoid", math<ops::sigmoid>),
    one("softsign", softsign),
    one("erf _npx_erf", error_function),
    one("erfinv _npx_erfinv", math<ops::erfinv>),
    one("gammaln _npx_gammaln", math<ops::lgamma>),
    one("exp", math<ops::exp>),
    one("expm1", math<ops::expm1>),
    one("log", math<ops::log>),
    one("log2", math<ops::log2>),
    one("log10", math<ops::log10>),
    one("log1p", math<ops::log1p>),
    one("sqrt", math<ops::sqrt>),
    one("rsqrt", math<ops::rsqrt>),
    one("cbrt", cube_root),
    one("rcbrt", inverse_cube_root),
    one("square _npi_square", map<ops::square>),
    one("reciprocal", math<ops::reciprocal>),
    one("abs _npi_absolute _npi_abs", map<ops::abs>),
    one("sign _npi_sign", map<ops::sign>),
    one("negative _npi_negative", map<ops::neg>),
    one("floor _npi_floor", rounding<ops::floor>),
    one("ceil _npi_ceil", rounding<ops::ceil>),
    one("trunc fix _npi_trunc _npi_fix", rounding<ops::trunc>),
    one("round", round_away),
    one("rint _npi_rint", round_down),
    one("sin", math<ops::sin>),
    one("cos", math<ops::cos>),
    one("tan", math<ops::tan>),
    one("arcsin", math<ops::asin>),
    one("arccos", math<ops::acos>),
    one("arctan", math<ops::atan>),
    one("sinh", math<ops::sinh>),
    one("cosh", math<ops::cosh>),
    one("tanh", math<ops::tanh>),
    one("arcsinh", math<ops::asinh>),
    one("arccosh", math<ops::acosh>),
    one("arctanh", math<ops::atanh>),
    one("degrees", angle<true>),
    one("radians", angle<false>),
    one("logical_not", logical_not),
    one("zeros_like", filled<0>),
    one("ones_like", filled<1>),
    {.names = "hard_sigmoid",
     .attrs = "alpha:float=0.2 beta:float=0.5",
     .body = hard_sigmoid,
     .complete = same_shapes},
    {.names = "clip", .attrs = "a_min:float a_max:float", .body = clip, .complete = same_shapes},
    {.names = "_npi_clip",
     .attrs = "a_min:float?=None a_max:float?=None",
     .body = clip,
     .complete = same_shapes},
    {.names = "smooth_l1 _npx_smooth_l1",
     .attrs = "scalar:float=1.0 is_int:any=True",
     .body = smooth_l1,
     .complete = same_shapes},
    one("gamma _npx_gamma", gamma),
    {.names = "_contrib_quadratic",
     .attrs = "a:float=0.0 b:float=0.0 c:float=0.0",
     .body = quadratic,
     .complete = same_shapes},
    {.names = "amp_multicast",
     .operands = "data*",
     .attrs = "num_outputs:int cast_narrow:bool=False",
     .body = cast_together,
     .check = check_output_count,
     .outputs = output_count,
     .mixed = true},
    {.names = "cast_storage", .attrs = "stype:text{default}", .body = copy, .complete = same_shapes},
    {.names = "Cast cast _npi_cast _npx_cast amp_cast",
     .attrs = "dtype:dtype",
     .body = cast,
     .complete = same_shapes,
     .mixed = true},

    two("elemwise_add _plus _Plus _add", map<ops::add>),
    two("elemwise_sub _minus _Minus _sub", map<ops::sub>),
    two("elemwise_mul _mul _Mul", map<ops::mul>),
    two("elemwise_div _div _Div", binary<divide>),
    two("_grad_add", map<ops::add>),
    two("_identity_with_attr_like_rhs", copy),
    two("_scatter_elemwise_div", binary<divide>),
    two("_mod _Mod", binary<modulo>),
    two("_power _Power", map<ops::pow>),
    two("_maximum _Maximum", map<ops::maximum>),
    two("_minimum _Minimum", map<ops::minimum>),
    two("_hypot _Hypot", hypot),
    two("_equal _Equal", compare<ops::eq>),
    two("_not_equal _Not_Equal", compare<ops::ne>),
    two("_greater _Greater", compare<ops::gt>),
    two("_greater_equal _Greater_Equal", compare<ops::ge>),
    two("_lesser _Lesser", compare<ops::lt>),
    two("_lesser_equal _Lesser_Equal", compare<ops::le>),
    two("_logical_and _Logical_And", logical<ops::logical_and>),
    two("_logical_or _Logical_Or", logical<ops::logical_or>),
    two("_logical_xor _Logical_Xor", logical<ops::logical_xor>),
    {.names = "add_n ElementWiseSum elemwise_sum",
     .operands = "args*",
     .attrs = "num_args:int",
     .body = add_all,
     .complete = same_shapes},

    spread("broadcast_add broadcast_plus", map<ops::add>),
    spread("broadcast_sub broadcast_minus", map<ops::sub>),
    spread("broadcast_mul", map<ops::mul>),
    spread("broadcast_div", binary<divide>),
    spread("broadcast_mod", binary<modulo>),
    spread("broadcast_power", map<ops::pow>),
    spread("broadcast_maximum", map<ops::maximum>),
    spread("broadcast_minimum", map<ops::minimum>),
    spread("broadcast_hypot", hypot),
    spread("broadcast_equal", compare<ops::eq>),
    spread("broadcast_not_equal", compare<ops::ne>),
    spread("broadcast_greater", compare<ops::gt>),
    spread("broadcast_greater_equal", compare<ops::ge>),
    spread("broadcast_lesser", compare<ops::lt>),
    spread("broadcast_lesser_equal", compare<ops::le>),
    spread("broadcast_logical_and", logical<ops::logical_and>),
    spread("broadcast_logical_or", logical<ops::logical_or>),
    spread("broadcast_logical_xor", logical<ops::logical_xor>),
    {.names = "where", .operands = "condition x y", .body = where, .mixed = true},

    one("_npi_exp", math<ops::exp>),
    one("_npi_expm1", math<ops::expm1>),
    one("_npi_log", math<ops::log>),
    one("_npi_log2", math<ops::log2>),
    one("_npi_log10", math<ops::log10>),
    one("_npi_log1p", math<ops::log1p>),
    one("_npi_sqrt", math<ops::sqrt>),
    one("_npi_sin", math<ops::sin>),
    one("_npi_cos", math<ops::cos>),
    one("_npi_tan", math<ops::tan>),
    one("_npi_arcsin", math<ops::asin>),
    one("_npi_arccos", math<ops::acos>),
    one("_npi_arctan", math<ops::atan>),
    one("_npi_sinh", math<ops::sinh>),
    one("_npi_cosh", math<ops::cosh>),
    one("_npi_tanh", math<ops::tanh>),
    one("_npi_arcsinh", math<ops::asinh>),
    one("_npi_arccosh", math<ops::acosh>),
    one("_npi_arctanh", math<ops::atanh>),
    one("_npi_reciprocal", math<ops::reciprocal>),
    one("_npi_isnan", map<ops::isnan>),
    one("_npi_isinf", map<ops::isinf>),
    one("_npi_isfinite", map<ops::isfinite>),
    one("_npi_logical_not", np_logical_not),
    spread("_npi_add", map<ops::add>),
    spread("_npi_subtract", map<ops::sub>),
    spread("_npi_multiply", map<ops::mul>),
    spread("_npi_true_divide", np_math<ops::div>),
    spread("_npi_mod", binary<modulo>),
    spread("_npi_power", map<ops::pow>),
    spread("_npi_maximum", map<ops::maximum>),
    spread("_npi_minimum", map<ops::minimum>),
    spread("_npi_hypot", hypot),
    spread("_npi_equal", map<ops::eq>),
    spread("_npi_not_equal", map<ops::ne>),
    spread("_npi_greater", map<ops::gt>),
    spread("_npi_greater_equal", map<ops::ge>),
    spread("_npi_less", map<ops::lt>),
    spread("_npi_less_equal", map<ops::le>),
    spread("_npi_bitwise_and", map<ops::bit_and>),
    spread("_npi_bitwise_or", map<ops::bit_or>),
    spread("_npi_bitwise_xor", map<ops::bit_xor>),
    one("_npi_bitwise_not", map<ops::bit_not>),
    spread("_npi_arctan2", np_math<ops::atan2>),
    {.names = "_npi_where", .operands = "condition x y", .body = np_where, .mixed = true},
};

}  // namespace
}  // namespace elementwise_ops

std::span<const Row> elementwise_rows() { return elementwise_ops::kRows; }

}  // namespace tenon::mxnet

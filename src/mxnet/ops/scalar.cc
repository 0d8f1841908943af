// Rows of elementwise operators of a tensor and a number. The number takes the dtype of the tensor; NumPy's operators
// compute integers with a number that is none in f64.
#include <cmath>

#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace scalar_ops {
namespace {

ValueId number(Call& c) { return c.like(c.in[0], c.a.number("scalar")); }

template <OpId op>
Values right(Call& c) {
  return {c(op, {c.in[0], number(c)})};
}
template <OpId op>
Values left(Call& c) {
  return {c(op, {number(c), c.in[0]})};
}
template <ValueId (*f)(Call&, ValueId, ValueId)>
Values right_of(Call& c) {
  return {f(c, c.in[0], number(c))};
}
template <ValueId (*f)(Call&, ValueId, ValueId)>
Values left_of(Call& c) {
  return {f(c, number(c), c.in[0])};
}
template <OpId op>
Values compare(Call& c) {
  return {as_number(c, right<op>(c)[0], c.in[0])};
}
template <OpId op>
Values logical(Call& c) {
  const ValueId other = c.full({}, DType::b8, c.a.number("scalar") != 0);
  return {as_number(c, c(op, {truth(c, c.in[0]), other}), c.in[0])};
}
Values hypot(Call& c) {
  const ValueId x = c.in[0];
  return {in_math_type(c, ops::sqrt, {c(ops::add, {c(ops::square, {x}), c(ops::square, {number(c)})})})};
}

// NumPy's: the tensor in the dtype of the result.
void promote(Call& c) {
  const bool whole = c.a.flag("is_int");
  if (!is_float(c.dtype(c.in[0])) && (!whole || is_bool(c.dtype(c.in[0]))))
    c.in[0] = c.cast(c.in[0], whole ? DType::i64 : DType::f64);
}
template <Values (*body)(Call&)>
Values np(Call& c) {
  promote(c);
  return body(c);
}
template <bool swapped>
Values np_divide(Call& c) {
  if (!is_float(c.dtype(c.in[0]))) c.in[0] = c.cast(c.in[0], DType::f32);
  return swapped ? left<ops::div>(c) : right<ops::div>(c);
}
// The comparison of an integer with a number that is none is one of f64.
template <OpId op>
Values np_compare(Call& c) {
  const double value = c.a.number("scalar");
  if (!is_float(c.dtype(c.in[0])) && (value != std::trunc(value) || is_bool(c.dtype(c.in[0]))))
    c.in[0] = c.cast(c.in[0], DType::f64);
  return right<op>(c);
}

constexpr Row row(std::string_view names, Values (*body)(Call&)) {
  return {
      .names = names, .attrs = "scalar:double=1.0 is_int:bool=True", .body = body, .complete = same_shapes};
}

const Row kRows[] = {
    row("_plus_scalar _PlusScalar _scatter_plus_scalar", right<ops::add>),
    row("_minus_scalar _MinusScalar _scatter_minus_scalar", right<ops::sub>),
    row("_rminus_scalar _RMinusScalar", left<ops::sub>),
    row("_mul_scalar _MulScalar", right<ops::mul>),
    row("_div_scalar _DivScalar", right_of<divide>),
    row("_rdiv_scalar _RDivScalar", left_of<divide>),
    row("_mod_scalar _ModScalar", right_of<modulo>),
    row("_rmod_scalar _RModScalar", left_of<modulo>),
    row("_power_scalar _PowerScalar", right<ops::pow>),
    row("_rpower_scalar _RPowerScalar", left<ops::pow>),
    row("_maximum_scalar _MaximumScalar _npi_maximum_scalar", right<ops::maximum>),
    row("_minimum_scalar _MinimumScalar _npi_minimum_scalar", right<ops::minimum>),
    row("_hypot_scalar _HypotScalar", hypot),
    row("_equal_scalar _EqualScalar", compare<ops::eq>),
    row("_not_equal_scalar _NotEqualScalar", compare<ops::ne>),
    row("_greater_scalar _GreaterScalar", compare<ops::gt>),
    row("_greater_equal_scalar _GreaterEqualScalar", compare<ops::ge>),
    row("_lesser_scalar _LesserScalar", compare<ops::lt>),
    row("_lesser_equal_scalar _LesserEqualScalar", compare<ops::le>),
    row("_logical_and_scalar _LogicalAndScalar", logical<ops::logical_and>),
    row("_logical_or_scalar _LogicalOrScalar", logical<ops::logical_or>),
    row("_logical_xor_scalar _LogicalXorScalar", logical<ops::logical_xor>),
    row("_npi_add_scalar", np<right<ops::add>>),
    row("_npi_subtract_scalar", np<right<ops::sub>>),
    row("_npi_rsubtract_scalar", np<left<ops::sub>>),
    row("_npi_multiply_scalar", np<right<ops::mul>>),
    row("_npi_true_divide_scalar", np_divide<false>),
    row("_npi_rtrue_divide_scalar", np_divide<true>),
    row("_npi_mod_scalar", np<right_of<modulo>>),
    row("_npi_rmod_scalar", np<left_of<modulo>>),
    row("_npi_power_scalar", np<right<ops::pow>>),
    row("_npi_rpower_scalar", np<left<ops::pow>>),
    row("_npi_equal_scalar", np_compare<ops::eq>),
    row("_npi_not_equal_scalar", np_compare<ops::ne>),
    row("_npi_greater_scalar", np_compare<ops::gt>),
    row("_npi_greater_equal_scalar", np_compare<ops::ge>),
    row("_npi_less_scalar", np_compare<ops::lt>),
    row("_npi_less_equal_scalar", np_compare<ops::le>),
};

}  // namespace
}  // namespace scalar_ops

std::span<const Row> scalar_rows() { return scalar_ops::kRows; }

}  // namespace tenon::mxnet

// See help.h.
#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {

void same_shapes(Completion& c) {
  for (Partial& p : c.in) c.same(p, c.out[0]);
  for (Partial& p : c.in) c.same(p, c.out[0]);
}

Status counts_operands(const Ask& ask, const char* attribute) {
  const int64_t n = ask.a.integer(attribute);
  if (n >= 1 && n == static_cast<int64_t>(ask.node.inputs.size())) return {};
  return invalid(std::string(attribute) + " is not the number of operands");
}

Sizes shape_of_rank(Call& c, ValueId v, size_t rank) {
  const Sizes shape = c.shape(v);
  if (shape.size() != rank) throw StatusError(invalid("needs data of rank " + std::to_string(rank)));
  return shape;
}

DType math_type(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

ValueId in_math_type(Call& c, OpId op, std::vector<ValueId> operands) {
  const DType dtype = c.dtype(operands[0]);
  if (is_float(dtype)) return c(op, std::move(operands));
  for (ValueId& v : operands) v = c.cast(v, math_type(dtype));
  return c.cast(c(op, std::move(operands)), dtype);
}

ValueId divide(Call& c, ValueId x, ValueId y) {
  return c(is_float(c.dtype(x)) ? ops::div : ops::trunc_div, {x, y});
}

ValueId modulo(Call& c, ValueId x, ValueId y) {
  const ValueId zero = c.like(y, 0), by_zero = c(ops::eq, {y, zero});
  const ValueId safe = c(ops::where, {by_zero, c.like(y, 1), y});
  const ValueId rest = c(ops::remainder, {x, safe});
  return c(ops::where, {by_zero, zero, rest});
}

ValueId as_number(Call& c, ValueId truth, ValueId v) { return c.cast(truth, c.dtype(v)); }

ValueId truth(Call& c, ValueId v) { return is_bool(c.dtype(v)) ? v : c(ops::ne, {v, c.like(v, 0)}); }

}  // namespace tenon::mxnet

// See rules.h.
#include "src/ops/rows/names.h"
#include "src/ops/rules/attention.h"
#include "src/ops/rules/rule_help.h"

namespace tenon::types {
namespace {

Status differ(const Rule& r, int i, int j) {
  return r.refuse("operands " + std::to_string(i) + " and " + std::to_string(j) + " differ in dtype, " +
                  std::string(name(r.c.operand(i).dtype)) + " and " +
                  std::string(name(r.c.operand(j).dtype)) + "; write a cast");
}

Status only_kept(const Rule& r, DType dtype) {
  return r.refuse(std::string(name(dtype)) + " is not computed with; write a cast");
}

// Operands from `first` on have one dtype.
Result<DType> one_dtype(const Rule& r, int first = 0) {
  for (int i = first + 1; i < r.operands(); ++i)
    if (r.c.operand(i).dtype != r.c.operand(first).dtype) return differ(r, first, i);
  return r.c.operand(first).dtype;
}

Result<DType> one_of(InferContext& c, bool (*accepts)(DType), const char* what) {
  const Rule r(c);
  TENON_ASSIGN(const DType dtype, any(c));
  if (!accepts(dtype)) return r.refuse(std::string("needs ") + what + ", not " + std::string(name(dtype)));
  return dtype;
}

}  // namespace

Result<DType> declared(InferContext& c) { return c.node.type.dtype; }

Result<DType> moved(InferContext& c) { return one_dtype(Rule(c)); }

Result<DType> any(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const DType dtype, one_dtype(r));
  return is_storage(dtype) ? Result<DType>(only_kept(r, dtype)) : dtype;
}

Result<DType> number(InferContext& c) {
  return one_of(c, [](DType t) { return !is_bool(t); }, "a number dtype");
}

Result<DType> floating(InferContext& c) {
  return one_of(c, [](DType t) { return is_float(t); }, "a float dtype");
}

Result<DType> integer(InferContext& c) {
  return one_of(c, [](DType t) { return is_integer(t); }, "an integer dtype");
}

Result<DType> bits(InferContext& c) {
  return one_of(c, [](DType t) { return !is_float(t); }, "an integer dtype or bool");
}

Result<DType> to_bool(InferContext& c) {
  TENON_ASSIGN(const DType operand, any(c));
  static_cast<void>(operand);
  return DType::b8;
}

Result<DType> to_i64(InferContext& c) {
  TENON_ASSIGN(const DType operand, any(c));
  static_cast<void>(operand);
  return DType::i64;
}

Result<DType> i64(InferContext& c) {
  return one_of(c, [](DType t) { return t == DType::i64; }, "i64");
}

Result<DType> i64_to_f32(InferContext& c) {
  TENON_ASSIGN(const DType operand, i64(c));
  static_cast<void>(operand);
  return DType::f32;
}

Result<DType> i64_to_i32(InferContext& c) {
  TENON_ASSIGN(const DType operand, i64(c));
  static_cast<void>(operand);
  return DType::i32;
}

Result<DType> int_products(InferContext& c) {
  const Rule r(c);
  const DType a = c.operand(0).dtype, b = c.operand(1).dtype;
  if (b != DType::i8 || (a != DType::i8 && a != DType::u8))
    return r.refuse("needs i8 or u8 by i8, not " + std::string(name(a)) + " by " + std::string(name(b)));
  return DType::i32;
}

Result<DType> where(InferContext& c) {
  const Rule r(c);
  if (!is_bool(c.operand(0).dtype))
    return r.refuse("operand 0 must be bool, not " + std::string(name(c.operand(0).dtype)));
  return one_dtype(r, 1);
}

Result<DType> from_dtype(InferContext& c) { return attr_as<DType>(c.node, "dtype"); }

Result<DType> from_dtype_not_bool(InferContext& c) {
  const DType dtype = attr_as<DType>(c.node, "dtype");
  if (is_bool(dtype)) return Rule(c).refuse("dtype must be a number dtype, not bool");
  if (is_storage(dtype)) return only_kept(Rule(c), dtype);
  return dtype;
}

Result<DType> same_width(InferContext& c) {
  const DType from = c.operand(0).dtype, to = attr_as<DType>(c.node, "dtype");
  if (size_of(from) != size_of(to) || is_bool(from) != is_bool(to))
    return Rule(c).refuse("the bits of " + std::string(name(from)) + " are no " + std::string(name(to)));
  return to;
}

Result<DType> indexed(InferContext& c) {
  const Rule r(c);
  const DType index = c.operand(1).dtype;
  if (index != DType::i64 && index != DType::i32)
    return r.refuse("indices must be i64 or i32, not " + std::string(name(index)));
  for (int i = 2; i < r.operands(); ++i)
    if (c.operand(i).dtype != c.operand(0).dtype) return differ(r, 0, i);
  const DType dtype = c.operand(0).dtype;
  const bool puts = c.node.op == ops::scatter || c.node.op == ops::index_put;
  if (is_storage(dtype) && puts && attr_as<std::string>(c.node, "mode") != "set") return only_kept(r, dtype);
  return dtype;
}

Result<DType> grouped(InferContext& c) {
  TENON_ASSIGN(const DType dtype, indexed(c));
  if (is_bool(dtype)) return Rule(c).refuse("needs a number dtype, not bool");
  return is_storage(dtype) ? Result<DType>(only_kept(Rule(c), dtype)) : dtype;
}

namespace {

// Operand 0 is a float, and the operands in front of `end` have its dtype or compute with it.
Result<DType> float_operands(InferContext& c, int end) {
  const Rule r(c);
  const DType dtype = c.operand(0).dtype;
  if (!is_float(dtype)) return r.refuse("needs a float dtype, not " + std::string(name(dtype)));
  if (is_storage(dtype)) return only_kept(r, dtype);
  for (int i = 1; i < end; ++i)
    if (c.operand(i).dtype != dtype && c.operand(i).dtype != compute_type(dtype)) return differ(r, 0, i);
  return dtype;
}

}  // namespace

Result<DType> float_params(InferContext& c) { return float_operands(c, Rule(c).operands()); }

Result<DType> attention(InferContext& c) {
  const Rule r(c);
  const int kept = attention_operands(c.node).kept;
  if (kept < 0) return float_params(c);
  if (!is_bool(c.operand(kept).dtype))
    return r.refuse("the weights that dropout keeps are bool, not " +
                    std::string(name(c.operand(kept).dtype)));
  return float_operands(c, kept);
}

}  // namespace tenon::types

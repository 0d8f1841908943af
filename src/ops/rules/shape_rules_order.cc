// See rules.h. This file has the rules of rows that compare elements (order.def).
#include "src/ops/rules/rule_help.h"

namespace tenon::shapes {

Result<Dims> sort_order(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const int axis, r.axis("axis"));
  if (r.rank() == 0) return r.refuse("a scalar has no axis to sort");
  const Dim start = attr_as<Dim>(c.node, "start"), end = attr_as<Dim>(c.node, "end");
  TENON_TRY(r.bounds(start, end, r.shape(0)[axis]));
  if (attr_as<bool>(c.node, "select") && start != Dim(0)) return r.refuse("a selection starts at position 0");
  Dims out = r.shape(0);
  out[axis] = c.dims.sub(end, start);
  return out;
}

Result<Dims> search(InferContext& c) {
  const Rule r(c);
  const Dims &sorted = r.shape(0), &values = r.shape(1);
  const std::string text = "shapes " + r.print(sorted) + " and " + r.print(values);
  if (sorted.empty()) return r.refuse(text + ": operand 0 needs an axis");
  if (sorted.size() == 1) return values;
  if (sorted.size() != values.size()) return r.refuse(text + ": ranks differ");
  for (size_t i = 0; i + 1 < sorted.size(); ++i) TENON_TRY(r.agree(sorted[i], values[i], text));
  return values;
}

}  // namespace tenon::shapes

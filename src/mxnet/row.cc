// See row.h.
#include "src/mxnet/row.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "src/ops/rules/rules.h"

namespace tenon::mxnet {
namespace {

std::string print(const DimTable& dims, const std::vector<Size>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? "," : "") + (shape[i] ? dims.print(*shape[i]) : "?");
  return out + "]";
}

}  // namespace

bool Partial::known() const {
  return dtype && shape &&
         std::all_of(shape->begin(), shape->end(), [](const Size& s) { return s.has_value(); });
}

TensorType Partial::type() const {
  TENON_CHECK(known(), "the type is not known");
  TensorType out{*dtype, {}};
  for (const Size& s : *shape) out.shape.push_back(*s);
  return out;
}

ValueId Call::operator()(OpId op, std::vector<ValueId> operands, std::vector<NamedAttr> attrs) {
  auto v = b.try_add(op, std::move(operands), std::move(attrs));
  if (!v.ok()) throw StatusError(v.status());
  return *v;
}

ValueId Call::like(ValueId v, double value) { return full({}, dtype(v), value); }

ValueId Call::full(Dims shape, DType dtype, double value) {
  if (!is_float(dtype)) value = std::trunc(value);
  const bool whole = !is_float(dtype) && std::abs(value) < 0x1p62;
  const Scalar scalar = whole ? Scalar::of(static_cast<int64_t>(value)) : Scalar::of(value);
  return (*this)(ops::full, {}, {{"value", scalar}, {"shape", std::move(shape)}, {"dtype", dtype}});
}

ValueId Call::slice(ValueId v, int axis, Dim start, Dim end, int64_t step) {
  return (*this)(ops::slice, {v}, {{"axis", Dim(axis)}, {"start", start}, {"end", end}, {"step", Dim(step)}});
}

int Call::axis(int64_t given, int rank) const {
  const auto normal = rank > 0 ? normal_axis(given, rank) : std::nullopt;
  if (!normal)
    throw StatusError(
        invalid("axis " + std::to_string(given) + " is out of range for rank " + std::to_string(rank)));
  return *normal;
}

Dim Call::product(const Dims& dims, size_t begin, size_t end) const {
  if (begin > end || end > dims.size()) throw std::out_of_range("product of axes");
  return b.dims().product(std::span(dims).subspan(begin, end - begin));
}

void Completion::set(Partial& what, const std::vector<Size>& shape) {
  if (!what.shape) {
    what.shape = shape;
    changed = true;
    return;
  }
  bool differ = what.shape->size() != shape.size();
  for (size_t i = 0; !differ && i < shape.size(); ++i) {
    Size& size = (*what.shape)[i];
    if (!shape[i] || size == shape[i]) continue;
    if (size) {
      differ = dims.equal(*size, *shape[i]) == false;
      continue;
    }
    size = shape[i];
    changed = true;
  }
  if (differ)
    throw StatusError(
        invalid("the shapes " + print(dims, *what.shape) + " and " + print(dims, shape) + " differ"));
}

void Completion::set(Partial& what, DType dtype) {
  if (what.dtype) return;
  what.dtype = dtype;
  changed = true;
}

void Completion::same(Partial& x, Partial& y) {
  if (x.shape) set(y, *x.shape);
  if (y.shape) set(x, *y.shape);
}

Size Completion::mul(Size x, Size y) const { return x && y ? Size(dims.mul(*x, *y)) : Size(); }

}  // namespace tenon::mxnet

// See src/ops/eval/kinds.h. This file has sources, map, reduce, scan and contractions; moves are in src/ops/eval/moves.cc.
#include "src/ops/eval/kinds.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "src/ops/math/scalar.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/rules.h"

namespace tenon {
namespace {

// Strides of a broadcast operand: 0 along the axes along which it is repeated.
std::vector<int64_t> broadcast_strides(const HostTensor& in, const std::vector<int64_t>& shape) {
  const std::vector<int64_t> dense = dense_strides(in.shape);
  std::vector<int64_t> strides(shape.size());
  const size_t lead = shape.size() - in.shape.size();
  for (size_t i = 0; i < in.shape.size(); ++i) strides[lead + i] = in.shape[i] == 1 ? 0 : dense[i];
  return strides;
}

// Applies a map row to one element of each operand; `wide` is the dtype of the last operand.
Element apply_row(const Op& row, DType wide, const std::vector<Element>& in) {
  Element out;
  if (!is_float(wide)) {
    std::vector<int64_t> x;
    for (const Element& e : in) x.push_back(e.i);
    out.i = row.eval_int(x.data());
  } else if (row.eval_f32 && compute_type(wide) == DType::f32) {
    std::vector<float> x;
    for (const Element& e : in) x.push_back(static_cast<float>(e.d));
    out.d = row.eval_f32(x.data());
  } else {
    std::vector<double> x;
    for (const Element& e : in) x.push_back(e.d);
    out.d = row.eval(x.data());
  }
  return out;
}

Status check_class(const Op& row, DType wide) {
  if (is_float(wide) ? row.eval != nullptr : row.eval_int != nullptr) return {};
  return unsupported(std::string(row.name) + " is not defined for " + std::string(name(wide)));
}

// Integers wrap; floats accumulate in double.
Element multiply_add(Element sum, Element a, Element b, bool is_real) {
  if (is_real)
    sum.d += a.d * b.d;
  else
    sum.i = scalar::add(sum.i, scalar::mul(a.i, b.i));
  return sum;
}

Status eval_matmul(Operands in, HostTensor& out) {
  HostTensor a = *in[0], b = *in[1];
  std::vector<int64_t> shape = out.shape;
  if (a.rank() == 1) {
    a.shape.insert(a.shape.begin(), 1);
    shape.insert(shape.end() - (b.rank() > 1 ? 1 : 0), 1);
  }
  if (b.rank() == 1) {
    b.shape.push_back(1);
    shape.push_back(1);
  }
  const int64_t inner = a.shape.back();
  auto matrix_strides = [&](HostTensor& t, bool rows) {  // over `shape`, without the inner axis
    const std::vector<int64_t> dense = dense_strides(t.shape);
    HostTensor batch;
    batch.shape.assign(t.shape.begin(), t.shape.end() - 2);
    std::vector<int64_t> strides = broadcast_strides(batch, {shape.begin(), shape.end() - 2});
    const size_t lead = strides.size() - batch.shape.size();
    for (size_t i = 0; i < batch.shape.size(); ++i)
      if (strides[lead + i] != 0) strides[lead + i] = dense[i];
    strides.push_back(rows ? dense[dense.size() - 2] : 0);
    strides.push_back(rows ? 0 : dense.back());
    return strides;
  };
  const int64_t step_b = b.shape.back();
  const bool real = is_float(out.dtype);
  walk(shape, {matrix_strides(a, true), matrix_strides(b, false), dense_strides(shape)}, [&](const auto& at) {
    Element sum;
    for (int64_t k = 0; k < inner; ++k)
      sum = multiply_add(sum, a.get(at[0] + k), b.get(at[1] + k * step_b), real);
    out.set(at[2], sum);
  });
  return {};
}

// Adds every product of an input element and a weight to one result element. With p = position in the result
// (in the input, if transposed), q = p * stride - padding + k * dilation is the position in the other.
Status eval_convolution(const Node& node, Operands in, HostTensor& out) {
  const HostTensor &x = *in[0], &w = *in[1];
  const bool transposed = attr_as<bool>(node, "transposed");
  const bool last = attr_as<std::string>(node, "layout") == "channels_last";
  const int64_t groups = attr_int(node, "groups");
  const auto strides = attr_ints(node, "strides"), low = attr_ints(node, "padding"),
             dilations = attr_ints(node, "dilations");
  const int axes = x.rank() - 2, channel = last ? x.rank() - 1 : 1, first = last ? 1 : 2;
  const int64_t batch = x.shape[0];
  const int64_t in_group = x.shape[channel] / groups, out_group = out.shape[channel] / groups;
  const std::vector<int64_t> xs = dense_strides(x.shape), ys = dense_strides(out.shape),
                             ws = dense_strides(w.shape);
  const HostTensor& moving = transposed ? x : out;
  const HostTensor& other = transposed ? out : x;
  std::vector<int64_t> space(moving.shape.begin() + first, moving.shape.begin() + first + axes);
  space.insert(space.end(), w.shape.begin() + 2, w.shape.end());
  std::vector<std::vector<int64_t>> units;  // so that walk passes the index itself
  for (int i = 0; i < 2 * axes; ++i) {
    units.emplace_back(2 * axes, 0);
    units.back()[i] = 1;
  }
  std::vector<double> sums(static_cast<size_t>(out.count()));
  if (in.size() > 2)
    walk(out.shape, {ys},
         [&](const auto& at) { sums[at[0]] = in[2]->get(at[0] / ys[channel] % out.shape[channel]).d; });
  walk(space, units, [&](const auto& at) {
    int64_t x_base = 0, y_base = 0, w_base = 0;
    for (int i = 0; i < axes; ++i) {
      const int64_t p = at[i], k = at[axes + i], q = p * strides[i] - low[i] + k * dilations[i];
      if (q < 0 || q >= other.shape[first + i]) return;
      x_base += (transposed ? p : q) * xs[first + i];
      y_base += (transposed ? q : p) * ys[first + i];
      w_base += k * ws[2 + i];
    }
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t g = 0; g < groups; ++g)
        for (int64_t o = 0; o < out_group; ++o)
          for (int64_t c = 0; c < in_group; ++c) {
            const int64_t from = n * xs[0] + (g * in_group + c) * xs[channel] + x_base;
            const int64_t to = n * ys[0] + (g * out_group + o) * ys[channel] + y_base;
            const int64_t weight = (transposed ? (g * in_group + c) * ws[0] + o * ws[1]
                                               : (g * out_group + o) * ws[0] + c * ws[1]) +
                                   w_base;
            sums[to] += x.get(from).d * w.get(weight).d;
          }
  });
  for (int64_t i = 0; i < out.count(); ++i) out.set(i, {sums[i], 0});
  return {};
}

}  // namespace

Status eval_source(const Node& node, HostTensor& out) {
  if (node.op == ops::constant) {
    const auto& data = *attr_as<std::shared_ptr<ConstantData>>(node, "data");
    if (data.size != 0) std::memcpy(out.bytes.data(), data.bytes, data.size);
  } else if (node.op == ops::full) {
    const Element value = element_of(attr_as<Scalar>(node, "value"), out.dtype);
    for (int64_t i = 0; i < out.count(); ++i) out.set(i, value);
  } else if (node.op == ops::dim) {
    out.set(0, convert_element({0, attr_int(node, "value")}, DType::i64, out.dtype));
  } else if (node.op == ops::iota) {
    const Scalar &start = attr_as<Scalar>(node, "start"), &step = attr_as<Scalar>(node, "step");
    const bool whole = start.is_int && step.is_int;
    const int axis = *normal_axis(attr_int(node, "axis"), out.rank());
    const std::vector<int64_t> dense = dense_strides(out.shape);
    for (int64_t i = 0; i < out.count(); ++i) {
      const int64_t index = out.rank() == 0 ? 0 : i / dense[axis] % out.shape[axis];
      if (whole)
        out.set(
            i, convert_element({0, scalar::add(start.i, scalar::mul(step.i, index))}, DType::i64, out.dtype));
      else
        out.set_number(i, start.as_double() + step.as_double() * static_cast<double>(index));
    }
  } else {
    return unsupported("no value");
  }
  return {};
}

Status eval_map(const Node& node, Operands in, HostTensor& out) {
  if (node.op == ops::cast) {
    for (int64_t i = 0; i < out.count(); ++i)
      out.set(i, convert_element(in[0]->get(i), in[0]->dtype, out.dtype));
    return {};
  }
  if (node.op == ops::bitcast) {
    out.bytes = in[0]->bytes;
    return {};
  }
  const Op& row = op(node.op);
  const DType wide = in.back()->dtype;
  TENON_TRY(check_class(row, wide));
  std::vector<std::vector<int64_t>> strides = {dense_strides(out.shape)};
  for (const HostTensor* operand : in) strides.push_back(broadcast_strides(*operand, out.shape));
  std::vector<Element> x(in.size());
  const bool checks = !row.fault.what.empty() && is_integer(wide);
  bool fault = false;
  walk(out.shape, strides, [&](const auto& at) {
    for (size_t i = 0; i < in.size(); ++i) {
      x[i] = in[i]->get(at[i + 1]);
      if (is_float(wide) && !is_float(in[i]->dtype)) x[i].d = static_cast<double>(x[i].i);
    }
    if (checks) {
      std::vector<int64_t> operands;
      for (const Element& e : x) operands.push_back(e.i);
      fault = fault || row.fault.eval(operands.data());
    }
    Element result = apply_row(row, wide, x);
    if (is_float(wide) && !is_float(out.dtype)) result.i = result.d != 0;
    out.set(at[0], result);
  });
  return fault ? invalid(std::string(row.fault.what)) : Status();
}

Status eval_reduce(const Node& node, Operands in, HostTensor& out) {
  const Op& row = op(node.op);
  const Op& combine = op(*find_op(row.combine));
  TENON_TRY(check_class(combine, out.dtype));
  const HostTensor& x = *in[0];
  TENON_ASSIGN(const std::vector<bool> folded, axis_flags(attr_ints(node, "axes"), x.rank()));
  std::vector<int64_t> kept_shape;
  for (int i = 0; i < x.rank(); ++i) kept_shape.push_back(folded[i] ? 1 : x.shape[i]);
  std::vector<int64_t> to = dense_strides(kept_shape);
  for (int i = 0; i < x.rank(); ++i)
    if (folded[i]) to[i] = 0;
  std::vector<Element> sums(static_cast<size_t>(out.count()),
                            element_of(identity_of(row, out.dtype), out.dtype));
  walk(x.shape, {dense_strides(x.shape), to}, [&](const auto& at) {
    sums[at[1]] =
        apply_row(combine, out.dtype, {sums[at[1]], convert_element(x.get(at[0]), x.dtype, out.dtype)});
  });
  for (int64_t i = 0; i < out.count(); ++i) out.set(i, sums[i]);
  return {};
}

Status eval_scan(const Node& node, Operands in, HostTensor& out) {
  const Op& row = op(node.op);
  const Op& combine = op(*find_op(row.combine));
  TENON_TRY(check_class(combine, out.dtype));
  const HostTensor& x = *in[0];
  const int axis = *normal_axis(attr_int(node, "axis"), x.rank());
  const int64_t length = x.rank() == 0 ? 1 : x.shape[axis];
  std::vector<int64_t> starts = x.shape, dense = dense_strides(x.shape);
  if (x.rank() > 0) starts[axis] = length == 0 ? 0 : 1;
  const int64_t step = x.rank() == 0 ? 1 : dense[axis];
  const Element identity = element_of(identity_of(row, out.dtype), out.dtype);
  walk(starts, {dense}, [&](const auto& at) {
    Element sum = identity;
    for (int64_t k = 0; k < length; ++k) {
      sum = apply_row(combine, out.dtype, {sum, x.get(at[0] + k * step)});
      out.set(at[0] + k * step, sum);
    }
  });
  return {};
}

Status eval_contract(const Node& node, Operands in, HostTensor& out) {
  if (node.op == ops::matmul) return eval_matmul(in, out);
  if (node.op == ops::convolution) return eval_convolution(node, in, out);
  return unsupported("no direct evaluation");
}

}  // namespace tenon

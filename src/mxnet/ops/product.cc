// Rows of matrix products and of attention.
#include <cmath>

#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace product_ops {
namespace {

// Swaps the last two axes.
ValueId transposed(Call& c, ValueId v, bool yes) {
  if (!yes) return v;
  const int rank = c.rank(v);
  if (rank < 2) throw StatusError(invalid("a vector has no transpose"));
  Dims perm;
  for (int i = 0; i < rank; ++i) perm.push_back(Dim(i));
  std::swap(perm[rank - 1], perm[rank - 2]);
  return c.transpose(v, perm);
}

// The last axis of the left (transposed: the first) times the first of the right (transposed: the last).
Values dot(Call& c) {
  const ValueId x = c.in[0], y = c.in[1];
  const Sizes left = c.shape(x), right = c.shape(y);
  if (left.empty() || right.empty()) throw StatusError(unsupported("a scalar operand is not translated"));
  const bool ta = c.a.flag("transpose_a") && left.size() > 1,
             tb = c.a.flag("transpose_b") && right.size() > 1;
  const Dim k = ta ? left.front() : left.back();
  const Dim rows = ta ? c.product(left, 1, left.size()) : c.product(left, 0, left.size() - 1);
  const Dim columns = tb ? c.product(right, 0, right.size() - 1) : c.product(right, 1, right.size());
  const Dim inner = tb ? right.back() : right.front();
  const ValueId a = transposed(c, c.reshape(x, ta ? Dims{k, rows} : Dims{rows, k}), ta);
  const ValueId b = transposed(c, c.reshape(y, tb ? Dims{columns, inner} : Dims{inner, columns}), tb);
  Dims out(left.begin() + (ta ? 1 : 0), left.end() - (ta ? 0 : 1));
  out.insert(out.end(), right.begin() + (tb ? 0 : 1), right.end() - (tb ? 1 : 0));
  if (out.empty()) out.push_back(Dim(1));
  return {c.reshape(c(ops::matmul, {a, b}), out)};
}

Values batch_dot(Call& c) {
  return {c(ops::matmul, {transposed(c, c.in[0], c.a.flag("transpose_a")),
                          transposed(c, c.in[1], c.a.flag("transpose_b"))})};
}

ValueId scaled(Call& c, ValueId v, double by) { return by == 1 ? v : c(ops::mul, {v, c.like(v, by)}); }

Values gemm2(Call& c) { return {scaled(c, batch_dot(c)[0], c.a.number("alpha"))}; }
Values gemm(Call& c) { return {c(ops::add, {gemm2(c)[0], scaled(c, c.in[2], c.a.number("beta"))})}; }
Status check_gemm(const Ask& ask) {
  return ask.a.integer("axis") == -2 ? Status() : unsupported("only axis=-2 is translated");
}

// A matrix product, or of a tensor with a matrix or vector.
Values np_dot(Call& c) {
  if (c.rank(c.in[0]) == 0 || c.rank(c.in[1]) == 0) return {c(ops::mul, c.in)};
  if (c.rank(c.in[1]) > 2)
    throw StatusError(unsupported("a right operand of rank above 2 is not translated"));
  return {c(ops::matmul, c.in)};
}
Values matmul(Call& c) { return {c(ops::matmul, c.in)}; }

Values div_sqrt_dim(Call& c) {
  const ValueId x = c.in[0];
  if (c.rank(x) == 0) throw StatusError(invalid("needs an axis"));
  const Dim size = c.shape(x).back();
  const ValueId root = size.is_const() ? c.like(x, std::sqrt(static_cast<double>(size.value())))
                                       : c(ops::sqrt, {c.b.size(size, c.dtype(x))});
  return {c(ops::div, {x, root})};
}

// Part `which` of `parts` of the interleaved projections [T, N, heads * parts * d], as [N * heads, T, d].
ValueId head_part(Call& c, ValueId v, Dim heads, int parts, int which) {
  const Sizes shape = c.shape(v);
  if (shape.size() != 3) throw StatusError(invalid("needs operands of rank 3"));
  DimTable& dims = c.b.dims();
  const auto width = dims.divide(shape[2], dims.mul(heads, Dim(parts)));
  if (!width) throw StatusError(invalid("the heads do not divide the size " + dims.print(shape[2])));
  ValueId x = c.reshape(v, {shape[0], shape[1], heads, Dim(parts), *width});
  x = c.reshape(c.slice(x, 3, Dim(which), Dim(which + 1)), {shape[0], shape[1], heads, *width});
  x = c.transpose(x, {Dim(1), Dim(2), Dim(0), Dim(3)});
  return c.reshape(x, {dims.mul(shape[1], heads), shape[0], *width});
}

Dim heads_of(Call& c) {
  const int64_t heads = c.a.integer("heads");
  if (heads < 1) throw StatusError(invalid("heads is " + std::to_string(heads)));
  return Dim(heads);
}

ValueId scores(Call& c, ValueId q, ValueId k) {
  const Dim width = c.shape(q)[2];
  const ValueId root = width.is_const() ? c.like(q, std::sqrt(static_cast<double>(width.value())))
                                        : c(ops::sqrt, {c.b.size(width, c.dtype(q))});
  return c(ops::matmul, {c(ops::div, {q, root}), transposed(c, k, true)});
}

// Attention [N * heads, Tq, Tk] times the values [N * heads, Tk, d], which are this part of the first operand: [Tq, N, heads * d].
template <int parts, int part>
Values weighted(Call& c) {
  const Dim heads = heads_of(c);
  const ValueId y = c(ops::matmul, {c.in[1], head_part(c, c.in[0], heads, parts, part)});
  const Dim batch = c.shape(c.in[0])[1];
  const Sizes shape = c.shape(y);
  const ValueId split = c.reshape(y, {batch, heads, shape[1], shape[2]});
  const ValueId moved = c.transpose(split, {Dim(2), Dim(0), Dim(1), Dim(3)});
  return {c.reshape(moved, {shape[1], batch, c.b.dims().mul(heads, shape[2])})};
}

Values selfatt_qk(Call& c) {
  const Dim heads = heads_of(c);
  return {scores(c, head_part(c, c.in[0], heads, 3, 0), head_part(c, c.in[0], heads, 3, 1))};
}
Values encdec_qk(Call& c) {
  const Dim heads = heads_of(c);
  return {scores(c, head_part(c, c.in[0], heads, 1, 0), head_part(c, c.in[1], heads, 2, 0))};
}

constexpr std::string_view kDot = "transpose_a:bool=False transpose_b:bool=False forward_stype:any=None";

const Row kRows[] = {
    {.names = "dot", .operands = "lhs rhs", .attrs = kDot, .body = dot},
    {.names = "batch_dot _npx_batch_dot", .operands = "lhs rhs", .attrs = kDot, .body = batch_dot},
    {.names = "_linalg_gemm2 linalg_gemm2",
     .operands = "A B",
     .attrs = "transpose_a:bool=False transpose_b:bool=False alpha:double=1 axis:int=-2",
     .body = gemm2,
     .check = check_gemm},
    {.names = "_linalg_gemm linalg_gemm",
     .operands = "A B C",
     .attrs = "transpose_a:bool=False transpose_b:bool=False alpha:double=1 beta:double=1 axis:int=-2",
     .body = gemm,
     .check = check_gemm},
    {.names = "_np_dot", .operands = "a b", .body = np_dot},
    {.names = "_npi_matmul", .operands = "a b", .body = matmul},
    {.names = "_contrib_div_sqrt_dim", .body = div_sqrt_dim, .complete = same_shapes},
    {.names = "_contrib_interleaved_matmul_selfatt_qk",
     .operands = "queries_keys_values",
     .attrs = "heads:int",
     .body = selfatt_qk},
    {.names = "_contrib_interleaved_matmul_selfatt_valatt",
     .operands = "queries_keys_values attention",
     .attrs = "heads:int",
     .body = weighted<3, 2>},
    {.names = "_contrib_interleaved_matmul_encdec_qk",
     .operands = "queries keys_values",
     .attrs = "heads:int",
     .body = encdec_qk},
    {.names = "_contrib_interleaved_matmul_encdec_valatt",
     .operands = "keys_values attention",
     .attrs = "heads:int",
     .body = weighted<2, 1>},
};

}  // namespace
}  // namespace product_ops

std::span<const Row> product_rows() { return product_ops::kRows; }

}  // namespace tenon::mxnet

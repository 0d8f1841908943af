// Rows of diagonals, triangles and products with them. Matrices are the last two axes, unless attributes name the axes.
#include <algorithm>

#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace matrix_ops {
namespace {

// Positions along one of two axes of a matrix: [rows, 1] or [1, columns], from `start` on.
ValueId positions(Call& c, Dim size, int axis, int64_t start = 0) {
  Dims shape(2, Dim(1));
  shape[static_cast<size_t>(axis)] = size;
  return c(ops::iota, {},
           {{"shape", shape}, {"dtype", DType::i64}, {"axis", Dim(axis)}, {"start", Scalar::of(start)}});
}

// The axes but two, and then the two: [..., rows, columns].
ValueId matrices(Call& c, ValueId v, int first, int second) {
  if (first == second) throw StatusError(invalid("the two axes are the same"));
  Dims perm;
  for (int i = 0; i < c.rank(v); ++i)
    if (i != first && i != second) perm.push_back(Dim(i));
  perm.push_back(Dim(first));
  perm.push_back(Dim(second));
  return c.transpose(v, perm);
}

// The elements (i, i + offset) of matrices [..., rows, columns], as [..., count].
ValueId diagonal(Call& c, ValueId v, int64_t offset) {
  Sizes shape = c.shape(v);
  if (shape.size() < 2) throw StatusError(invalid("needs two axes"));
  const Dim rows = shape[shape.size() - 2], columns = shape.back();
  if (!rows.is_const() || !columns.is_const() || std::max(rows.value(), columns.value()) > 1 << 30)
    throw StatusError(unsupported("the diagonal of a symbolic or huge size is not translated"));
  const int64_t count =
      std::min(rows.value() + std::min<int64_t>(offset, 0), columns.value() - std::max<int64_t>(offset, 0));
  if (offset < -rows.value() || offset > columns.value() || count < 1)
    throw StatusError(invalid("the diagonal " + std::to_string(offset) + " has no elements"));
  const int64_t start = offset >= 0 ? offset : -offset * columns.value(), step = columns.value() + 1;
  shape.pop_back();
  shape.back() = Dim(rows.value() * columns.value());
  const int axis = static_cast<int>(shape.size()) - 1;
  return c.slice(c.reshape(v, shape), axis, Dim(start), Dim(start + (count - 1) * step + 1), step);
}

// Vectors [..., n] on the diagonal `offset` of matrices of zeros.
ValueId on_diagonal(Call& c, ValueId v, int64_t offset) {
  if (c.rank(v) < 1 || std::abs(offset) > 1 << 20)
    throw StatusError(invalid("needs an axis and a near diagonal"));
  Dims low(static_cast<size_t>(c.rank(v)), Dim(0)), high = low;
  (offset < 0 ? low : high).back() = Dim(std::abs(offset));
  ValueId column = c(ops::pad, {v}, {{"low", low}, {"high", high}});
  Sizes shape = c.shape(column);
  const Dim size = shape.back();
  shape.push_back(Dim(1));
  column = c.reshape(column, shape);
  const ValueId hit = c(ops::eq, {positions(c, size, 0, offset), positions(c, size, 1)});
  return c(ops::where, {hit, column, c.like(v, 0)});
}

Values diag(Call& c) {
  const ValueId x = c.in[0];
  const int rank = c.rank(x);
  const int64_t k = c.a.integer("k");
  if (rank == 1) return {on_diagonal(c, x, k)};
  return {
      diagonal(c, matrices(c, x, c.axis(c.a.integer("axis1"), rank), c.axis(c.a.integer("axis2"), rank)), k)};
}
Values np_diag(Call& c) {
  const int64_t k = c.a.integer("k");
  if (c.rank(c.in[0]) > 2) throw StatusError(invalid("needs one or two axes"));
  return {c.rank(c.in[0]) == 1 ? on_diagonal(c, c.in[0], k) : diagonal(c, c.in[0], k)};
}
Values diag_flat(Call& c) {
  const Sizes shape = c.shape(c.in[0]);
  return {on_diagonal(c, c.reshape(c.in[0], {c.product(shape, 0, shape.size())}), c.a.integer("k"))};
}
Values np_diagonal(Call& c) {
  const int rank = c.rank(c.in[0]);
  const ValueId moved =
      matrices(c, c.in[0], c.axis(c.a.integer("axis1"), rank), c.axis(c.a.integer("axis2"), rank));
  return {diagonal(c, moved, c.a.integer("offset"))};
}
Values trace(Call& c) { return {c(ops::sum, np_diagonal(c), {{"axes", Dims{Dim(-1)}}})}; }
Values extract_diagonal(Call& c) { return {diagonal(c, c.in[0], c.a.integer("offset"))}; }
Values make_diagonal(Call& c) { return {on_diagonal(c, c.in[0], c.a.integer("offset"))}; }
Values sum_log_diagonal(Call& c) {
  const ValueId y = c(ops::sum, {c(ops::log, {diagonal(c, c.in[0], 0)})}, {{"axes", Dims{Dim(-1)}}});
  return {c.rank(y) == 0 ? c.reshape(y, {Dim(1)}) : y};
}

// Zeros above (below) the diagonal k.
ValueId triangle(Call& c, ValueId v, int64_t k, bool lower) {
  const Sizes shape = c.shape(v);
  if (shape.size() < 2) throw StatusError(invalid("needs two axes"));
  const ValueId row = positions(c, shape[shape.size() - 2], 0, k), column = positions(c, shape.back(), 1);
  return c(ops::where, {c(lower ? ops::le : ops::ge, {column, row}), v, c.like(v, 0)});
}
Values tril(Call& c) { return {triangle(c, c.in[0], c.a.integer("k"), true)}; }

ValueId swapped(Call& c, ValueId v) {
  const int rank = c.rank(v);
  if (rank < 2) throw StatusError(invalid("needs two axes"));
  return matrices(c, v, rank - 1, rank - 2);
}
ValueId scaled(Call& c, ValueId v) {
  const double alpha = c.a.number("alpha");
  return alpha == 1 ? v : c(ops::mul, {v, c.like(v, alpha)});
}

// alpha * A A^T, or with transpose alpha * A^T A.
Values syrk(Call& c) {
  const ValueId a = c.in[0], t = swapped(c, a);
  return {scaled(c, c.a.flag("transpose") ? c(ops::matmul, {t, a}) : c(ops::matmul, {a, t}))};
}
// The triangle of A, perhaps transposed, times B, or from the right.
Values trmm(Call& c) {
  ValueId a = triangle(c, c.in[0], 0, c.a.flag("lower"));
  if (c.a.flag("transpose")) a = swapped(c, a);
  return {scaled(c, c.a.flag("rightside") ? c(ops::matmul, {c.in[1], a}) : c(ops::matmul, {a, c.in[1]}))};
}

// Sums over the pairs of axes. The result has the other axes of the left, then those of the right.
Values contract(Call& c, const std::vector<int>& left, const std::vector<int>& right) {
  if (left.size() != right.size()) throw StatusError(invalid("differently many axes are summed"));
  Dims out;
  // The operand as a matrix: the kept axes as one, the summed as one.
  auto matrix = [&](ValueId v, const std::vector<int>& summed, bool summed_first) {
    const Sizes shape = c.shape(v);
    Dims kept, perm;
    for (int i = 0; i < c.rank(v); ++i)
      if (std::find(summed.begin(), summed.end(), i) == summed.end()) kept.push_back(Dim(i));
    Dim inner(1), outer(1);
    for (const Dim i : kept) {
      outer = c.b.dims().mul(outer, shape[static_cast<size_t>(i.value())]);
      out.push_back(shape[static_cast<size_t>(i.value())]);
    }
    for (const int i : summed) {
      inner = c.b.dims().mul(inner, shape[static_cast<size_t>(i)]);
      perm.push_back(Dim(i));
    }
    perm.insert(summed_first ? perm.end() : perm.begin(), kept.begin(), kept.end());
    return c.reshape(c.transpose(v, perm), summed_first ? Dims{inner, outer} : Dims{outer, inner});
  };
  const ValueId a = matrix(c.in[0], left, false), b = matrix(c.in[1], right, true);
  return {c.reshape(c(ops::matmul, {a, b}), out)};
}
std::vector<int> axes_of(Call& c, const char* name, ValueId v) {
  std::vector<int> out;
  for (const int64_t axis : c.a.ints(name)) out.push_back(c.axis(axis, c.rank(v)));
  return out;
}
Values tensordot(Call& c) {
  return contract(c, axes_of(c, "a_axes_summed", c.in[0]), axes_of(c, "b_axes_summed", c.in[1]));
}
Values tensordot_last(Call& c) {
  const int64_t count = c.a.integer("axes"), rank = c.rank(c.in[0]);
  if (count < 0 || count > rank || count > c.rank(c.in[1])) throw StatusError(invalid("sums too many axes"));
  std::vector<int> left, right;
  for (int i = 0; i < count; ++i) {
    left.push_back(static_cast<int>(rank - count) + i);
    right.push_back(i);
  }
  return contract(c, left, right);
}

const Row kRows[] = {
    {.names = "diag", .attrs = "k:int=0 axis1:int=0 axis2:int=1", .body = diag},
    {.names = "_np_diag", .attrs = "k:int=0", .body = np_diag},
    {.names = "_np_diagflat", .attrs = "k:int=0", .body = diag_flat},
    {.names = "_np_diagonal", .attrs = "offset:int=0 axis1:int=0 axis2:int=1", .body = np_diagonal},
    {.names = "_np_trace", .attrs = "offset:int=0 axis1:int=0 axis2:int=1", .body = trace},
    {.names = "_npi_tril", .attrs = "k:int=0", .body = tril, .complete = same_shapes},
    {.names = "_linalg_extractdiag", .operands = "A", .attrs = "offset:int=0", .body = extract_diagonal},
    {.names = "_linalg_makediag", .operands = "A", .attrs = "offset:int=0", .body = make_diagonal},
    {.names = "_linalg_sumlogdiag", .operands = "A", .body = sum_log_diagonal},
    {.names = "_linalg_syrk",
     .operands = "A",
     .attrs = "transpose:bool=False alpha:double=1.0",
     .body = syrk},
    {.names = "_linalg_trmm",
     .operands = "A B",
     .attrs = "transpose:bool=False rightside:bool=False lower:bool=True alpha:double=1.0",
     .body = trmm},
    {.names = "_npi_tensordot",
     .operands = "a b",
     .attrs = "a_axes_summed:shape b_axes_summed:shape",
     .body = tensordot},
    {.names = "_npi_tensordot_int_axes", .operands = "a b", .attrs = "axes:int", .body = tensordot_last},
};

}  // namespace
}  // namespace matrix_ops

std::span<const Row> matrix_rows() { return matrix_ops::kRows; }

}  // namespace tenon::mxnet

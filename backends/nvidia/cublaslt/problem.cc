// See problem.h.
#include "backends/nvidia/cublaslt/problem.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace tenon::cublaslt {
namespace {

// An empty sum is computed as a sum of this many products of zeros, so that rows have 16 bytes in the smallest dtype.
constexpr int64_t kZeroTerms = 8;

// A matrix with a stride per axis, before it becomes a column-major Matrix.
struct Plane {
  int64_t rows = 0, columns = 0, row_stride = 0, column_stride = 0;
};

// The column-major Matrix of an operand. Row-major memory is the transpose in column-major order, so rows and columns swap.
// If rows are contiguous, the library reads the operand as stored; if columns are, as a transpose, with by_columns_too. Nothing
// otherwise.
std::optional<Matrix> stored(const Plane& p, bool by_columns_too) {
  auto along = [](int64_t inner, int64_t inner_stride, int64_t outer, int64_t outer_stride) {
    return (inner == 1 || inner_stride == 1) && (outer == 1 || outer_stride >= inner);
  };
  const bool rows = along(p.columns, p.column_stride, p.rows, p.row_stride);
  const bool columns = by_columns_too && along(p.rows, p.row_stride, p.columns, p.column_stride);
  // A vector becomes one column of the library's matrix.
  if (columns && (!rows || (p.columns == 1 && p.rows > 1)))
    return Matrix{p.rows, p.columns, p.columns == 1 ? p.rows : p.column_stride, 0, true};
  if (rows) return Matrix{p.columns, p.rows, p.rows == 1 ? p.columns : p.row_stride, 0, false};
  return std::nullopt;
}

struct BatchAxis {
  int64_t count;
  int64_t strides[BatchedCall::kMatrices];
};

bool countable(const Matrix& m) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return m.rows <= kMost && m.columns <= kMost;
}

}  // namespace

Result<BatchedCall> at_sizes(const Spec& spec, const Sizes& sizes) {
  BatchedCall w;
  const std::vector<int64_t> shape = sizes.eval(spec.result.shape);
  const size_t n = shape.size();
  w.empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  if (w.empty) return w;
  const Operand* operands[BatchedCall::kMatrices] = {&spec.a, &spec.b,
                                                     spec.added ? &*spec.added : &spec.result, &spec.result};
  const int64_t item = size_of(spec.dtype);
  Plane planes[BatchedCall::kMatrices];
  std::vector<BatchAxis> batch(n - 2);
  for (int i = 0; i < BatchedCall::kMatrices; ++i) {
    const std::vector<int64_t> own = sizes.eval(operands[i]->shape),
                               strides = sizes.eval(operands[i]->strides);
    planes[i] = {own[n - 2], own[n - 1], strides[n - 2], strides[n - 1]};
    for (size_t axis = 0; axis + 2 < n; ++axis) {
      batch[axis].count = shape[axis];
      batch[axis].strides[i] = strides[axis];
      if (strides[axis] < 0 && shape[axis] > 1) return unsupported("a batch that is read backwards");
    }
    w.buffers[i] = operands[i]->buffer;
    w.offsets[i] = sizes.eval(operands[i]->offset) * item;
  }
  auto& [a, b, c, d] = planes;
  if (spec.bias) {
    w.bias_buffer = spec.bias->buffer;
    w.bias_offset = sizes.eval(spec.bias->offset) * item;
  }

  std::erase_if(batch, [](const BatchAxis& axis) { return axis.count == 1; });
  for (size_t i = 0; i + 1 < batch.size();) {
    BatchAxis &outer = batch[i], &inner = batch[i + 1];
    bool even = true;
    for (int m = 0; m < BatchedCall::kMatrices; ++m)
      even = even && outer.strides[m] == inner.strides[m] * inner.count;
    if (!even) {
      ++i;
      continue;
    }
    inner.count *= outer.count;
    batch.erase(batch.begin() + static_cast<long>(i));
  }
  const int64_t k = a.columns;
  auto written = [&](const Plane* all) { return stored(all[2], false) && stored(all[3], false); };
  // If the innermost batch axis has one second operand, it is merged into the rows of the first operand.
  while (!batch.empty() && batch.back().strides[1] == 0) {
    const BatchAxis& axis = batch.back();
    Plane longer[BatchedCall::kMatrices];
    std::copy(std::begin(planes), std::end(planes), longer);
    bool even = true;
    for (int m : {0, 2, 3}) {
      Plane& p = longer[m];
      if (p.rows == 1) p.row_stride = axis.strides[m];
      even = even && axis.strides[m] == p.row_stride * p.rows;
      p.rows *= axis.count;
    }
    if (!even || !stored(longer[0], true) || !written(longer)) break;
    std::copy(std::begin(longer), std::end(longer), planes);
    batch.pop_back();
  }
  // A product with one column is computed as its transpose, so that the vector becomes one column of the library's matrix.
  auto turn = [&] {
    std::swap(a, b);
    std::swap(w.buffers[0], w.buffers[1]);
    std::swap(w.offsets[0], w.offsets[1]);
    for (BatchAxis& axis : batch) std::swap(axis.strides[0], axis.strides[1]);
    for (Plane& p : planes) {
      std::swap(p.rows, p.columns);
      std::swap(p.row_stride, p.column_stride);
    }
  };
  if (d.columns == 1 && d.rows > 1 && !spec.bias) {
    turn();
    if (!written(planes)) turn();
  }
  if (k == 0) {
    a.columns = b.rows = kZeroTerms;
    a.row_stride = kZeroTerms;
    b.row_stride = b.columns;
    a.column_stride = b.column_stride = 1;
    w.zeros = std::max(a.rows, b.columns) * kZeroTerms * item;
    w.offsets[0] = w.offsets[1] = 0;
    for (BatchAxis& axis : batch) axis.strides[0] = axis.strides[1] = 0;
  }

  Problem& p = w.problem;
  p.dtype = spec.dtype;
  p.tf32 = spec.tf32;
  p.bias = spec.bias.has_value();
  p.added = spec.added.has_value();
  p.activation = spec.activation;
  w.alpha = spec.alpha;
  w.beta = spec.beta;
  // The library's A is our second operand, since our row-major result is the transpose of its column-major one.
  const auto left = stored(b, true), right = stored(a, true), added = stored(c, false),
             result = stored(d, false);
  if (!left || !right || !added || !result)
    return unsupported("rows that overlap in memory, or are not contiguous");
  std::swap(w.buffers[0], w.buffers[1]);
  std::swap(w.offsets[0], w.offsets[1]);
  p.a = *left, p.b = *right, p.c = *added, p.d = *result;
  for (const Matrix* m : {&p.a, &p.b, &p.d})
    if (!countable(*m)) return unsupported("a matrix of 2^31 rows or columns");

  // The longest batch axis becomes that of the library; the others become axes of calls.
  auto longest = std::max_element(batch.begin(), batch.end(),
                                  [](const BatchAxis& x, const BatchAxis& y) { return x.count < y.count; });
  for (auto axis = batch.begin(); axis != batch.end(); ++axis) {
    std::swap(axis->strides[0], axis->strides[1]);  // in the library's order
    if (axis == longest && axis->count <= std::numeric_limits<int32_t>::max()) {
      p.batch = axis->count;
      Matrix* matrices[] = {&p.a, &p.b, &p.c, &p.d};
      for (int m = 0; m < BatchedCall::kMatrices; ++m) matrices[m]->batch_stride = axis->strides[m];
      continue;
    }
    BatchedCall::Axis& call = w.outer.emplace_back(BatchedCall::Axis{axis->count, {}});
    for (int m = 0; m < BatchedCall::kMatrices; ++m) call.bytes[m] = axis->strides[m] * item;
  }
  return w;
}

int64_t BatchedCall::calls() const {
  int64_t n = 1;
  for (const Axis& axis : outer) n *= axis.count;
  return empty ? 0 : n;
}

void BatchedCall::unroll_batch() {
  const int64_t item = size_of(problem.dtype);
  Axis axis{problem.batch, {}};
  Matrix* matrices[] = {&problem.a, &problem.b, &problem.c, &problem.d};
  for (int m = 0; m < kMatrices; ++m) {
    axis.bytes[m] = matrices[m]->batch_stride * item;
    matrices[m]->batch_stride = 0;
  }
  problem.batch = 1;
  outer.push_back(axis);
}

std::string Problem::key() const {
  std::string text;
  auto put = [&](int64_t v) { text.append(reinterpret_cast<const char*>(&v), sizeof v); };
  for (int64_t v : {static_cast<int64_t>(dtype), int64_t{tf32}, int64_t{bias}, int64_t{added},
                    static_cast<int64_t>(activation), batch})
    put(v);
  for (const Matrix* m : {&a, &b, &c, &d})
    for (int64_t v : {m->rows, m->columns, m->ld, m->batch_stride, int64_t{m->transposed}}) put(v);
  return text;
}

std::string Problem::text() const {
  const int64_t terms = b.transposed ? b.columns : b.rows;
  const std::string epilogue = epilogue_text(bias, added, activation);
  return (batch > 1 ? std::to_string(batch) + " of " : "") + std::to_string(d.columns) + "x" +
         std::to_string(d.rows) + "x" + std::to_string(terms) + " " + std::string(name(dtype)) +
         (tf32 ? " tf32" : "") + (epilogue.empty() ? "" : ",") + epilogue;
}

}  // namespace tenon::cublaslt

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

constexpr int kMatrices = BatchedCall::kMatrices;

// A product in row-major terms, while its axes find their places: A, B, C and D, with a stride per axis.
struct RowMajor {
  struct Axis {
    int64_t count;
    int64_t strides[kMatrices];
  };
  Plane planes[kMatrices];
  std::vector<Axis> batch;  // the first axis varies slowest
  std::vector<library::Place> places;
};

Result<RowMajor> read(const Spec& spec, const Sizes& sizes, const std::vector<int64_t>& shape) {
  const Operand* operands[] = {&spec.a, &spec.b, spec.added ? &*spec.added : &spec.result, &spec.result};
  RowMajor p;
  const size_t n = shape.size();
  for (size_t axis = 0; axis + 2 < n; ++axis) p.batch.push_back({shape[axis], {}});
  for (int i = 0; i < kMatrices; ++i) {
    const library::Tensor t = library::at_sizes(*operands[i], sizes);
    p.planes[i] = {t.dims[n - 2], t.dims[n - 1], t.strides[n - 2], t.strides[n - 1]};
    p.places.push_back(t);
    for (size_t axis = 0; axis + 2 < n; ++axis) {
      p.batch[axis].strides[i] = t.strides[axis];
      if (t.strides[axis] < 0 && shape[axis] > 1) return unsupported("a batch that is read backwards");
    }
  }
  return p;
}

// Makes one axis of neighbours that one stride steps through.
void merge_batch(RowMajor& p) {
  std::erase_if(p.batch, [](const RowMajor::Axis& axis) { return axis.count == 1; });
  for (size_t i = 0; i + 1 < p.batch.size();) {
    RowMajor::Axis &outer = p.batch[i], &inner = p.batch[i + 1];
    bool even = true;
    for (int m = 0; m < kMatrices; ++m) even = even && outer.strides[m] == inner.strides[m] * inner.count;
    if (!even) {
      ++i;
      continue;
    }
    inner.count *= outer.count;
    p.batch.erase(p.batch.begin() + static_cast<long>(i));
  }
}

bool written(const Plane* planes) { return stored(planes[2], false) && stored(planes[3], false); }

// If the innermost batch axis has one second operand, it is merged into the rows of the first operand.
void merge_rows(RowMajor& product) {
  while (!product.batch.empty() && product.batch.back().strides[1] == 0) {
    const RowMajor::Axis& axis = product.batch.back();
    Plane longer[kMatrices];
    std::copy(std::begin(product.planes), std::end(product.planes), longer);
    bool even = true;
    for (int m : {0, 2, 3}) {
      Plane& p = longer[m];
      if (p.rows == 1) p.row_stride = axis.strides[m];
      even = even && axis.strides[m] == p.row_stride * p.rows;
      p.rows *= axis.count;
    }
    if (!even || !stored(longer[0], true) || !written(longer)) break;
    std::copy(std::begin(longer), std::end(longer), product.planes);
    product.batch.pop_back();
  }
}

void swap_operands(RowMajor& p) {
  std::swap(p.places[0], p.places[1]);
  for (RowMajor::Axis& axis : p.batch) std::swap(axis.strides[0], axis.strides[1]);
}

// Transposes the product.
void turn(RowMajor& product) {
  std::swap(product.planes[0], product.planes[1]);
  swap_operands(product);
  for (Plane& p : product.planes) {
    std::swap(p.rows, p.columns);
    std::swap(p.row_stride, p.column_stride);
  }
}

// Replaces the operands of an empty sum; both read the same zeros. Returns their bytes.
int64_t multiply_zeros(RowMajor& p, int64_t item) {
  Plane &a = p.planes[0], &b = p.planes[1];
  a.columns = b.rows = kZeroTerms;
  a.row_stride = kZeroTerms;
  b.row_stride = b.columns;
  a.column_stride = b.column_stride = 1;
  p.places[0].offset = p.places[1].offset = 0;
  for (RowMajor::Axis& axis : p.batch) axis.strides[0] = axis.strides[1] = 0;
  return std::max(a.rows, b.columns) * kZeroTerms * item;
}

// The longest batch axis becomes that of the library; the others become axes of calls. The operands are in the library's order.
void place_batch(const std::vector<RowMajor::Axis>& batch, int64_t item, BatchedCall& call) {
  Problem& p = call.problem;
  Matrix* matrices[] = {&p.a, &p.b, &p.c, &p.d};
  const auto longest = std::ranges::max_element(batch, {}, &RowMajor::Axis::count);
  for (auto axis = batch.begin(); axis != batch.end(); ++axis) {
    if (axis == longest && axis->count <= std::numeric_limits<int32_t>::max()) {
      p.batch = axis->count;
      for (int m = 0; m < kMatrices; ++m) matrices[m]->batch_stride = axis->strides[m];
      continue;
    }
    BatchedCall::Axis& outer = call.outer.emplace_back(BatchedCall::Axis{axis->count, {}});
    for (int m = 0; m < kMatrices; ++m) outer.bytes[m] = axis->strides[m] * item;
  }
}

bool countable(const Matrix& m) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return m.rows <= kMost && m.columns <= kMost;
}

}  // namespace

Result<BatchedCall> at_sizes(const Spec& spec, const Sizes& sizes) {
  BatchedCall call;
  const std::vector<int64_t> shape = sizes.eval(spec.result.shape);
  call.empty = std::ranges::find(shape, 0) != shape.end();
  if (call.empty) return call;
  TENON_ASSIGN(RowMajor product, read(spec, sizes, shape));
  auto& [a, b, c, d] = product.planes;
  const int64_t item = size_of(spec.dtype);
  const bool nothing = a.columns == 0;
  merge_batch(product);
  merge_rows(product);
  // A product with one column is computed as its transpose, so that the vector becomes one column of the library's matrix.
  if (d.columns == 1 && d.rows > 1 && !spec.bias) {
    turn(product);
    if (!written(product.planes)) turn(product);
  }
  if (nothing) call.zeros = multiply_zeros(product, item);

  Problem& p = call.problem;
  p.dtype = spec.dtype;
  p.tf32 = spec.tf32;
  p.bias = spec.bias.has_value();
  p.added = spec.added.has_value();
  p.activation = spec.activation;
  call.alpha = spec.alpha;
  call.beta = spec.beta;
  // The library's A is our second operand, since our row-major result is the transpose of its column-major one.
  const auto left = stored(b, true), right = stored(a, true), added = stored(c, false),
             result = stored(d, false);
  if (!left || !right || !added || !result)
    return unsupported("rows that overlap in memory, or are not contiguous");
  p.a = *left, p.b = *right, p.c = *added, p.d = *result;
  for (const Matrix* m : {&p.a, &p.b, &p.d})
    if (!countable(*m)) return unsupported("a matrix of 2^31 rows or columns");
  swap_operands(product);
  place_batch(product.batch, item, call);
  call.places = std::move(product.places);
  if (spec.bias) call.places.push_back(library::at_sizes(*spec.bias, sizes));
  return call;
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
  std::string key;
  for (int64_t v : {static_cast<int64_t>(dtype), int64_t{tf32}, int64_t{bias}, int64_t{added},
                    static_cast<int64_t>(activation), batch})
    library::add_to_key(key, v);
  for (const Matrix* m : {&a, &b, &c, &d})
    for (int64_t v : {m->rows, m->columns, m->ld, m->batch_stride, int64_t{m->transposed}})
      library::add_to_key(key, v);
  return key;
}

std::string Problem::text() const {
  const int64_t terms = b.transposed ? b.columns : b.rows;
  const std::string epilogue = epilogue_text(bias, added, activation);
  return (batch > 1 ? std::to_string(batch) + " of " : "") + std::to_string(d.columns) + "x" +
         std::to_string(d.rows) + "x" + std::to_string(terms) + " " + std::string(name(dtype)) +
         (tf32 ? " tf32" : "") + (epilogue.empty() ? "" : ",") + epilogue;
}

}  // namespace tenon::cublaslt

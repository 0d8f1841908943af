// See step.h. Rows of x that are not dense rows of f32 at equal distances are copied first, and likewise results are stored from a
// part of scratch.
#include "backends/products/step.h"

#include <algorithm>
#include <numeric>

#include "src/base/align.h"
#include "src/base/convert.h"

namespace tenon::products {
namespace {

constexpr int64_t kPart = 1024;  // columns of a result that stay in the cache until they are stored
constexpr int64_t kBytesPerThread = 1 << 18;  // of the matrix, below which a thread costs more than it saves
constexpr int64_t kDepthParts = 4;
constexpr int64_t kLeastDepth = 64;    // of a part
constexpr int64_t kLongRow = 1 << 15;  // bytes of a row of the matrix; threads take pieces of longer rows

int64_t count_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  return count;
}

// The elements in front of each row of a tensor.
std::vector<int64_t> rows_of(const PlacedOperand& o) {
  std::vector<int64_t> rows;
  const std::vector<int64_t> outer(o.shape.begin(), o.shape.end() - 1);
  for (int64_t i = 0, count = count_of(outer); i < count; ++i) {
    int64_t rest = i, at = 0;
    for (size_t axis = outer.size(); axis-- > 0; rest /= outer[axis])
      at += rest % outer[axis] * o.strides[axis];
    rows.push_back(at);
  }
  return rows;
}

// Whether rows are dense and begin at equal distances.
bool is_regular(const PlacedOperand& o, const std::vector<int64_t>& rows) {
  if (!o.has_rows()) return false;
  for (size_t i = 2; i < rows.size(); ++i)
    if (rows[i] - rows[i - 1] != rows[1] - rows[0]) return false;
  return true;
}

int64_t step_of(const std::vector<int64_t>& rows) { return rows.size() > 1 ? rows[1] - rows[0] : 0; }

float read(DType dtype, const char* from) {
  if (dtype == DType::f32) return *reinterpret_cast<const float*>(from);
  const uint16_t bits = *reinterpret_cast<const uint16_t*>(from);
  return dtype == DType::bf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

void write(DType dtype, float value, char* to) {
  if (dtype == DType::f32)
    *reinterpret_cast<float*>(to) = value;
  else
    *reinterpret_cast<uint16_t*>(to) = dtype == DType::bf16 ? f32_to_bf16(value) : f32_to_f16(value);
}

}  // namespace

struct FewRowsStep::Run {
  const FewRowsStep* step;
  void* const* buffers;
  float* scratch;

  char* of(const PlacedOperand& o) const {
    return static_cast<char*>(buffers[o.buffer]) + o.offset * size_of(step->dtype);
  }
  float* sums() const { return scratch + step->threads_ * step->scratch_; }
};

void FewRowsStep::plan(int most_threads) {
  TENON_CHECK(matrix.strides[0] == 1 || matrix.strides[1] == 1,
              "the rows or the columns of the matrix are dense");
  x_rows_ = rows_of(x);
  y_rows_ = rows_of(y);
  depth_ = matrix.shape[0];
  columns_ = matrix.shape[1];
  copies_x_ = dtype != DType::f32 || !is_regular(x, x_rows_);
  copies_y_ = dtype != DType::f32 || !is_regular(y, y_rows_);
  const int64_t work = depth_ * columns_ * size_of(dtype) / kBytesPerThread;
  threads_ = static_cast<int>(std::clamp<int64_t>(work, 1, most_threads));
  const bool in_parts = matrix.strides[0] != 1 && work > 1 && depth_ >= kDepthParts * kLeastDepth &&
                        columns_ * size_of(dtype) < kLongRow;
  parts_ = in_parts ? kDepthParts : 1;
  blocks_ = in_parts ? threads_ / std::gcd(threads_, parts_) : ceil_div(columns_, inner::kColumnBlock);
  const bool stores = copies_y_ && !in_parts;
  scratch_ = align_up(copies_x_ ? row_count() * depth_ : 0) + align_up(stores ? row_count() * kPart : 0);
}

void FewRowsStep::copy_rows(const char* from, int64_t first, int64_t end, float* to) const {
  const int64_t item = size_of(dtype);
  for (const int64_t row : x_rows_)
    for (int64_t k = first; k < end; ++k) *to++ = read(dtype, from + (row + k * x.strides.back()) * item);
}

void FewRowsStep::store(const Run& run, const float* sums, int64_t sums_stride, int64_t from,
                        int64_t end) const {
  const int64_t item = size_of(dtype);
  char* to = run.of(y);
  const char* added = bias.used() ? run.of(bias) : nullptr;
  for (size_t r = 0; r < y_rows_.size(); ++r, sums += sums_stride)
    for (int64_t j = from; j < end; ++j) {
      const float more = added ? read(dtype, added + j * bias.strides[0] * item) : 0;
      write(dtype, sums[j - from] + more, to + (y_rows_[r] + j * y.strides.back()) * item);
    }
}

inner::FewRows FewRowsStep::product(const Run& run, float* scratch, int64_t first, int64_t end) const {
  inner::FewRows product{reinterpret_cast<const float*>(run.of(x)) + first,
                         step_of(x_rows_),
                         row_count(),
                         run.of(matrix) + first * matrix.strides[0] * size_of(dtype),
                         dtype,
                         matrix.strides[0],
                         matrix.strides[1],
                         end - first,
                         nullptr,
                         0,
                         nullptr,
                         0};
  if (copies_x_) {
    copy_rows(run.of(x), first, end, scratch);
    product.x = scratch;
    product.x_stride = end - first;
  }
  return product;
}

void FewRowsStep::finish(const Run& run, int64_t row, inner::FewRows& product) const {
  if (bias.used()) {
    product.bias = reinterpret_cast<const float*>(run.of(bias));
    product.bias_stride = bias.strides[0];
  }
  product.y_stride = step_of(y_rows_);
  product.y = reinterpret_cast<float*>(run.of(y)) + row * product.y_stride;
}

void FewRowsStep::compute(const Run& run, int thread, int64_t from, int64_t end) const {
  float* scratch = run.scratch + thread * scratch_;
  inner::FewRows product = this->product(run, scratch, 0, depth_);
  if (!copies_y_) {
    finish(run, 0, product);
    return inner::multiply(product, from, end);
  }
  if (copies_x_) scratch += align_up(row_count() * depth_);
  product.y_stride = kPart;
  for (; from < end; from += kPart) {
    const int64_t part = std::min(end, from + kPart);
    product.y = scratch - from;
    inner::multiply(product, from, part);
    store(run, scratch, kPart, from, part);
  }
}

void FewRowsStep::compute_part(const Run& run, int thread, int64_t part, int64_t from, int64_t end) const {
  inner::FewRows product = this->product(run, run.scratch + thread * scratch_, depth_ * part / parts_,
                                         depth_ * (part + 1) / parts_);
  product.y = run.sums() + part * row_count() * columns_;
  product.y_stride = columns_;
  product.far = true;
  inner::multiply(product, from, end);
}

void FewRowsStep::add_parts(const Run& run) const {
  static constexpr float kOnes[] = {1, 1, 1, 1};
  static_assert(std::size(kOnes) == kDepthParts);
  const int64_t count = row_count() * columns_;
  float* totals = run.sums() + parts_ * count;
  for (int64_t r = 0; r < row_count(); ++r) {
    inner::FewRows sum{kOnes,  0,       1, run.sums() + r * columns_, DType::f32, count, 1,
                       parts_, nullptr, 0, totals + r * columns_,     0};
    if (!copies_y_) finish(run, r, sum);
    inner::multiply(sum, 0, columns_);
  }
  if (copies_y_) store(run, totals, columns_, 0, columns_);
}

void FewRowsStep::compute_items(const Run& run, int thread, int64_t begin, int64_t end) const {
  const int64_t width = ceil_div(columns_, blocks_ * inner::kColumnBlock) * inner::kColumnBlock;
  const auto column = [&](int64_t block) { return std::min(columns_, block * width); };
  if (parts_ == 1) return compute(run, thread, column(begin), column(end));
  for (int64_t i = begin; i < end; ++i)
    compute_part(run, thread, i / blocks_, column(i % blocks_), column(i % blocks_ + 1));
}

Status FewRowsStep::run(void* const* buffers, char* scratch, const RunOn& on) const {
  if (x_rows_.empty()) return {};
  Run run{this, buffers, reinterpret_cast<float*>(scratch)};
  on.parallel.run(
      parts_ * blocks_, threads_,
      [](void* arg, int thread, int64_t begin, int64_t end) {
        const auto& r = *static_cast<const Run*>(arg);
        r.step->compute_items(r, thread, begin, end);
      },
      &run);
  if (parts_ > 1) add_parts(run);
  return {};
}

}  // namespace tenon::products

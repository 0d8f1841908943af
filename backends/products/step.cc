// See step.h. Rows of x that are not dense rows of f32 at equal distances are copied first, and likewise results are stored from a
// part of scratch.
#include "backends/products/step.h"

#include <algorithm>

#include "src/base/align.h"
#include "src/base/convert.h"

namespace tenon::products {
namespace {

constexpr int64_t kPart = 1024;  // columns of a result that stay in the cache until they are stored
constexpr int64_t kBytesPerThread = 1 << 18;  // of the matrix, below which a thread costs more than it saves

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
};

void FewRowsStep::plan(int most_threads) {
  x_rows_ = rows_of(x);
  y_rows_ = rows_of(y);
  depth_ = matrix.shape[0];
  columns_ = matrix.shape[1];
  copies_x_ = dtype != DType::f32 || !is_regular(x, x_rows_);
  copies_y_ = dtype != DType::f32 || !is_regular(y, y_rows_);
  const auto rows = static_cast<int64_t>(x_rows_.size());
  scratch_ = align_up(copies_x_ ? rows * depth_ : 0) + align_up(copies_y_ ? rows * kPart : 0);
  const int64_t work = depth_ * columns_ * size_of(dtype) / kBytesPerThread;
  threads_ = static_cast<int>(std::clamp<int64_t>(work, 1, most_threads));
}

void FewRowsStep::copy_rows(const char* from, float* to) const {
  const int64_t item = size_of(dtype);
  for (const int64_t row : x_rows_)
    for (int64_t k = 0; k < depth_; ++k) *to++ = read(dtype, from + (row + k * x.strides.back()) * item);
}

void FewRowsStep::store(const Run& run, const float* sums, int64_t from, int64_t end) const {
  const int64_t item = size_of(dtype);
  char* to = run.of(y);
  const char* added = bias.used() ? run.of(bias) : nullptr;
  for (size_t r = 0; r < y_rows_.size(); ++r, sums += kPart)
    for (int64_t j = from; j < end; ++j) {
      const float more = added ? read(dtype, added + j * bias.strides[0] * item) : 0;
      write(dtype, sums[j - from] + more, to + (y_rows_[r] + j * y.strides.back()) * item);
    }
}

void FewRowsStep::compute(const Run& run, int thread, int64_t from, int64_t end) const {
  float* scratch = run.scratch + thread * scratch_;
  const auto rows = static_cast<int64_t>(x_rows_.size());
  inner::FewRows product{reinterpret_cast<const float*>(run.of(x)),
                         step_of(x_rows_),
                         rows,
                         run.of(matrix),
                         dtype,
                         matrix.strides[0],
                         matrix.strides[1],
                         depth_,
                         nullptr,
                         0,
                         nullptr,
                         0};
  if (copies_x_) {
    copy_rows(run.of(x), scratch);
    product.x = scratch;
    product.x_stride = depth_;
    scratch += align_up(rows * depth_);
  }
  if (!copies_y_) {
    if (bias.used()) {
      product.bias = reinterpret_cast<const float*>(run.of(bias));
      product.bias_stride = bias.strides[0];
    }
    product.y = reinterpret_cast<float*>(run.of(y));
    product.y_stride = step_of(y_rows_);
    return inner::multiply(product, from, end);
  }
  product.y_stride = kPart;
  for (; from < end; from += kPart) {
    const int64_t part = std::min(end, from + kPart);
    product.y = scratch - from;
    inner::multiply(product, from, part);
    store(run, scratch, from, part);
  }
}

Status FewRowsStep::run(void* const* buffers, char* scratch, const RunOn& on) const {
  if (x_rows_.empty()) return {};
  Run run{this, buffers, reinterpret_cast<float*>(scratch)};
  constexpr int64_t kBlock = inner::kColumnBlock;
  on.parallel.run((columns_ + kBlock - 1) / kBlock, threads_,
                  [](void* arg, int thread, int64_t begin, int64_t end) {
                    const auto& r = *static_cast<const Run*>(arg);
                    r.step->compute(r, thread, begin * kBlock, std::min(r.step->columns_, end * kBlock));
                  },
                  &run);
  return {};
}

}  // namespace tenon::products

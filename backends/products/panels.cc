// See panels.h.
#include "backends/products/panels.h"

#include <algorithm>
#include <optional>

#include "backends/inner/product.h"
#include "src/base/align.h"

namespace tenon::products {
namespace {

constexpr int64_t kRows = 48;        // of x that stay in a near cache while a panel passes
constexpr int64_t kDepth = 512;      // summands after which a sum is added to the result: it is rounded less
constexpr int64_t kReadInPlace = 8;  // rows for which packing a panel does not pay, if its rows are dense
constexpr int64_t kWorkPerThread = 1 << 18;  // products below which a thread costs more than it saves

int64_t width() { return inner::panel_width_of<double>(); }

// The elements in front of the part of an operand that has this index along the leading axes of y. inner: the other axes of the operand.
int64_t offset_at(const PlacedOperand& o, size_t inner, const std::vector<int64_t>& leading, int64_t index) {
  int64_t at = o.offset;
  size_t axis = o.shape.size() - inner;
  for (size_t i = leading.size(); i-- > 0; index /= leading[i])
    if (axis > 0 && o.shape[--axis] != 1) at += index % leading[i] * o.strides[axis];
  return at;
}

// The distance of the rows of a tensor, if it is the same for all rows along all its axes but the last.
std::optional<int64_t> row_distance(const PlacedOperand& o) {
  int64_t rows = 1, distance = 0;
  for (size_t axis = o.shape.size() - 1; axis-- > 0; rows *= o.shape[axis]) {
    if (o.shape[axis] == 1) continue;
    if (rows == 1)
      distance = o.strides[axis];
    else if (o.strides[axis] != rows * distance)
      return std::nullopt;
  }
  return distance;
}

}  // namespace

struct PanelsStep::Run {
  const PanelsStep* step;
  void* const* buffers;
  double* scratch;

  double* of(const PlacedOperand& o) const { return static_cast<double*>(buffers[o.buffer]); }
};

void PanelsStep::plan(int most_threads) {
  const size_t rank = y.shape.size();
  columns_ = y.shape[rank - 1];
  depth_ = x.shape.back();
  std::vector<int64_t> leading(y.shape.begin(), y.shape.end() - 2);
  rows_ = y.shape[rank - 2];
  x_row_ = x.strides[x.strides.size() - 2];
  y_row_ = y.strides[rank - 2];
  const std::optional<int64_t> x_rows = row_distance(x), y_rows = row_distance(y);
  if (matrix.shape.size() == 2 && x.shape.size() == rank && x_rows && y_rows) {  // one batch
    for (const int64_t n : leading) rows_ *= n;
    leading.clear();
    x_row_ = *x_rows;
    y_row_ = *y_rows;
  }
  int64_t batches = 1;
  for (const int64_t n : leading) batches *= n;
  if (rows_ == 0 || columns_ == 0) batches = 0;
  for (int64_t b = 0; b < batches; ++b)
    batches_.push_back(
        {offset_at(x, 2, leading, b), offset_at(matrix, 2, leading, b), offset_at(y, 2, leading, b)});

  panels_ = ceil_div(columns_, width());
  const int64_t work = batches * rows_ * depth_ * columns_ / kWorkPerThread;
  threads_ = static_cast<int>(std::clamp<int64_t>(work, 1, most_threads));
  // Enough items for the threads, of at least kRows rows, because each packs its panel.
  const int64_t wanted = ceil_div(2 * threads_, std::max<int64_t>(batches * panels_, 1));
  row_blocks_ = threads_ == 1 ? 1 : std::clamp<int64_t>(wanted, 1, ceil_div(rows_, kRows));
  row_block_ = ceil_div(ceil_div(rows_, row_blocks_), kRows) * kRows;
  row_blocks_ = ceil_div(rows_, row_block_);
  scratch_ = (depth_ + 1 + kRows) * width();
}

void PanelsStep::compute(const Run& run, int thread, int64_t item) const {
  const int64_t block = item % row_blocks_, w = width(), from = item / row_blocks_ % panels_ * w;
  const Batch& batch = batches_[static_cast<size_t>(item / row_blocks_ / panels_)];
  const int64_t first = block * row_block_, end = std::min(rows_, first + row_block_);
  const int64_t count = std::min(w, columns_ - from);
  double *packed = run.scratch + thread * scratch_, *added = packed + depth_ * w, *tile = added + w;

  const int64_t down = matrix.strides[matrix.strides.size() - 2], right = matrix.strides.back();
  const double* panel = run.of(matrix) + batch.matrix + from * right;
  int64_t panel_stride = down;
  if (count < w || right != 1 || end - first > kReadInPlace) {
    inner::pack_columns(panel, right, down, count, depth_, packed);
    panel = packed;
    panel_stride = w;
  }
  if (bias.used())
    for (int64_t j = 0; j < w; ++j)
      added[j] = j < count ? run.of(bias)[bias.offset + (from + j) * bias.strides[0]] : 0;

  const int64_t x_step = x.strides.back(), y_step = y.strides.back();
  const bool direct = count == w && y_step == 1;
  for (int64_t row = first; row < end; row += kRows) {
    const int64_t rows = std::min(kRows, end - row);
    const double* in = run.of(x) + batch.x + row * x_row_;
    double* out = run.of(y) + batch.y + row * y_row_ + from * y_step;
    inner::PanelProductOf<double> product{
        in, x_row_, rows, panel, panel_stride, 0, direct ? out : tile, direct ? y_row_ : w};
    product.x_step = x_step;
    for (int64_t k = 0; k == 0 || k < depth_; k += kDepth) {
      product.x = in + k * x_step;
      product.panel = panel + k * panel_stride;
      product.depth = std::min(kDepth, depth_ - k);
      product.bias = k == 0 && bias.used() ? added : nullptr;
      product.adds = k > 0;
      inner::multiply(product);
    }
    if (direct) continue;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < count; ++j) out[r * y_row_ + j * y_step] = tile[r * w + j];
  }
}

Status PanelsStep::run(void* const* buffers, char* scratch, const RunOn& on) const {
  Run run{this, buffers, reinterpret_cast<double*>(scratch)};
  const int64_t items = static_cast<int64_t>(batches_.size()) * panels_ * row_blocks_;
  on.parallel.run(
      items, threads_,
      [](void* arg, int thread, int64_t begin, int64_t end) {
        const auto& r = *static_cast<const Run*>(arg);
        for (int64_t item = begin; item < end; ++item) r.step->compute(r, thread, item);
      },
      &run);
  return {};
}

}  // namespace tenon::products

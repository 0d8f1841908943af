// See gradient_step.h.
#include "backends/attention/gradient_step.h"

#include <algorithm>
#include <atomic>

#include "backends/inner/product.h"
#include "src/base/align.h"

namespace tenon::attention {
namespace {

using inner::panel_width;
using inner::whole_panels;

constexpr int64_t kMostGroup = 48, kLeastGroup = 12;  // rows of a group: whole tiles of products
// The most floats of the scores of a group that has more rows than the least: they stay in the second cache.
constexpr int64_t kScores = 1 << 16;
constexpr int64_t kColumns = 128;  // a causal group computes the columns that it sees in steps of as many
constexpr int64_t kItems = 8;      // least parallel items, if there are as many groups
constexpr int64_t kLine = 16;      // floats of a cache line

// y [rows, columns] = x [rows, depth] * a matrix.
struct Product {
  const float* x;
  int64_t x_stride, rows, depth;
  float* y;
  int64_t y_stride, columns;
  bool adds = false;  // to y
  int64_t x_step = 1;
};

// The matrix as panels: the first at `matrix`, from panel to panel `next`, from row to row `stride`.
void multiply(const Product& p, const float* matrix, int64_t next, int64_t stride) {
  for (int64_t j = 0; j < p.columns; j += panel_width(), matrix += next)
    inner::multiply({.x = p.x,
                     .x_stride = p.x_stride,
                     .rows = p.rows,
                     .panel = matrix,
                     .panel_stride = stride,
                     .depth = p.depth,
                     .y = p.y + j,
                     .y_stride = p.y_stride,
                     .adds = p.adds,
                     .x_step = p.x_step,
                     .columns = p.columns - j});
}

void pack(const float* rows, int64_t stride, int64_t count, int64_t length, float* panels) {
  const int64_t w = panel_width();
  for (int64_t j = 0; j < count; j += w)
    inner::pack_columns(rows + j * stride, stride, 1, std::min(w, count - j), length, panels + j * length);
}

}  // namespace

// Some groups of the heads that share a head of k, and the scratch memory of the thread that computes them.
struct GradientStep::Item {
  int64_t b, key_head;
  int64_t from, to;  // groups; those of the first head come first
  void* const* buffers;
  float* scratch;
  float* sums;  // of the gradients of k, then of v
};

struct GradientStep::Group {
  int64_t head, first, count;  // rows
  bool is_short;
  int64_t columns;  // that it computes
  size_t step;      // index of its kernels
};

struct GradientStep::Run {
  const GradientStep* step;
  void* const* buffers;
  float* scratch;
  std::atomic<bool> failed{false};
};

Status GradientStep::plan(int most_threads) {
  // Not a multiple of a page: lines a page apart have the same place in the first cache.
  columns_ = whole_panels(keys) + kLine;
  const int64_t fitting = kScores / columns_ / kLeastGroup * kLeastGroup;
  groups_ = ceil_div(rows, std::clamp(fitting, kLeastGroup, kMostGroup));
  group_ = ceil_div(rows, std::max<int64_t>(groups_, 1));
  groups_ = ceil_div(rows, std::max<int64_t>(group_, 1));
  short_ = group_ > 0 ? rows % group_ : 0;
  const int64_t items = batch * key_heads, groups_of_key = heads_per_key() * groups_;
  if (items > 0 && items < kItems)
    parts_of_head_ = std::clamp<int64_t>(ceil_div(kItems, items), 1, std::max<int64_t>(groups_of_key, 1));
  const int64_t work = batch * heads * rows * keys * (3 * depth + 2 * width);
  const int64_t most = std::clamp<int64_t>(items * parts_of_head_, 1, most_threads);
  threads_ = static_cast<int>(std::clamp<int64_t>(work / kWorkPerThread, 1, most));
  if (items == 0) return {};
  TENON_TRY(plan_rows());
  TENON_TRY(plan_softmax());
  plan_scratch();
  return {};
}

Status GradientStep::plan_rows() {
  const int64_t dk_begin = batch * rows * heads * depth,
                dv_begin = dk_begin + batch * keys * key_heads * depth;
  TENON_TRY(prepare_operand(q_, q, depth, group_, short_));
  TENON_TRY(prepare_operand(dy_, dy, width, group_, short_));
  TENON_TRY(prepare_operand(k_, k, depth, keys, 0));
  TENON_TRY(prepare_operand(v_, v, width, keys, 0));
  TENON_TRY(prepare_result(dq_, 0, {rows, heads, depth}, group_, short_));
  TENON_TRY(prepare_result(dk_, dk_begin, {keys, key_heads, depth}, keys, 0));
  return prepare_result(dv_, dv_begin, {keys, key_heads, width}, keys, 0);
}

Status GradientStep::prepare_operand(Rows& made, const PlacedOperand& operand, int64_t length, int64_t count,
                                     int64_t short_count) {
  made.buffer = operand.buffer;
  made.offset = operand.offset;
  made.batch = operand.strides[0];
  made.row = operand.strides[1];
  made.head = operand.strides[2];
  made.length = length;
  made.floats = whole_panels(length);
  made.in_place = !kernels->widen && length % panel_width() == 0;
  if (!kernels->widen) return {};
  for (auto [n, step] : {std::pair(count, &made.convert), std::pair(short_count, &made.convert_short)})
    if (n > 0)
      TENON_TRY(planned_.prepare(*kernels->widen,
                                 {{"R", n}, {"D", length}, {"A", made.row}, {"Z", made.floats}}, step));
  return {};
}

Status GradientStep::prepare_result(Rows& made, int64_t begin, std::array<int64_t, 3> shape, int64_t count,
                                    int64_t short_count) {
  const int64_t step_of_elements = gradient.strides[0];
  made.buffer = gradient.buffer;
  made.offset = gradient.offset + begin * step_of_elements;
  made.length = shape[2];
  made.head = shape[2] * step_of_elements;
  made.row = shape[1] * made.head;
  made.batch = shape[0] * made.row;
  made.floats = whole_panels(made.length);
  const bool copies = !kernels->store;
  made.in_place = copies && made.length % panel_width() == 0;
  if (copies) return {};
  for (auto [n, step] : {std::pair(count, &made.convert), std::pair(short_count, &made.convert_short)})
    if (n > 0)
      TENON_TRY(planned_.prepare(
          *kernels->store,
          {{"R", n}, {"D", made.length}, {"S", made.floats}, {"Y", made.row}, {"E", step_of_elements}},
          step));
  return {};
}

Status GradientStep::plan_softmax() {
  const int64_t seen = causal ? std::min(rows, keys) : keys;  // the most columns of a group
  if (rows == 0 || seen == 0) return {};
  for (const int64_t count : {group_, short_}) {
    if (count == 0) continue;
    const bool is_short = count == short_;
    for (int64_t end = causal ? kColumns : keys; end < seen + kColumns; end += kColumns) {
      const int64_t columns = std::min(end, keys);
      const inner::Kernel::Values sizes = {{"R", count},
                                           {"K", columns},
                                           {"S", columns_},
                                           {"A", mask.used() ? mask_strides[2] : 0},
                                           {"B", mask.used() ? mask_strides[3] : 0},
                                           {"G", kept.used() ? kept.strides[2] : 0}};
      TENON_TRY(planned_.prepare(kernels->softmax->kernel(), sizes, &softmax_[is_short].emplace_back()));
      TENON_TRY(
          planned_.prepare(*kernels->softmax_gradient, sizes, &softmax_gradient_[is_short].emplace_back()));
      if (!causal) break;
    }
  }
  return {};
}

void GradientStep::plan_scratch() {
  ScratchFloats scratch;
  const auto take = [&](int64_t floats) { return scratch.take(floats); };
  const auto rows_of = [&](const Rows& r, int64_t count) { return take(r.in_place ? 0 : count * r.floats); };
  parts_.queries = rows_of(q_, group_);
  parts_.results = rows_of(dy_, group_);
  parts_.keys = rows_of(k_, keys);
  parts_.values = rows_of(v_, keys);
  parts_.key_panels = take(whole_panels(keys) * depth);
  parts_.value_panels = take(whole_panels(keys) * width);
  parts_.scores = take(group_ * columns_);
  parts_.weights = take(group_ * columns_);
  parts_.kept_weights = kept.used() ? take(group_ * columns_) : parts_.weights;
  parts_.gradient = take(group_ * columns_);
  parts_.dq = rows_of(dq_, group_);
  parts_.kernel = take(ceil_div(planned_.scratch, kFloat));
  parts_.end = scratch.end;
  sums_floats_ = align_up(keys * (dk_.floats + dv_.floats) * kFloat) / kFloat;
}

int64_t GradientStep::scratch_bytes() const {
  const int64_t sums = parts_of_head_ > 1 ? batch * key_heads * parts_of_head_ : threads_;
  return (threads_ * parts_.end + sums * sums_floats_) * kFloat;
}

GradientStep::Item GradientStep::item_of(const Run& run, int thread, int64_t index) const {
  const int64_t head = index / parts_of_head_, part = index % parts_of_head_,
                groups = heads_per_key() * groups_;
  Item made;
  made.b = head / key_heads;
  made.key_head = head % key_heads;
  made.from = groups * part / parts_of_head_;
  made.to = groups * (part + 1) / parts_of_head_;
  made.buffers = run.buffers;
  made.scratch = run.scratch + thread * parts_.end;
  made.sums = run.scratch + threads_ * parts_.end + (parts_of_head_ > 1 ? index : thread) * sums_floats_;
  return made;
}

char* GradientStep::at(const Item& item, const Rows& rows, int64_t head, int64_t row) const {
  const int64_t offset = rows.offset + item.b * rows.batch + head * rows.head + row * rows.row;
  return static_cast<char*>(item.buffers[rows.buffer]) + offset * element;
}

char* GradientStep::kernel_scratch(const Item& item) const {
  return reinterpret_cast<char*>(item.scratch + parts_.kernel);
}

bool GradientStep::run_kernel(const Step& step, const void* from, void* to, const Item& item) const {
  void* buffers[] = {const_cast<void*>(from), to};
  return inner::run(step, buffers, kernel_scratch(item)).ok();
}

bool GradientStep::read(const Rows& rows, const char* from, int64_t count, bool is_short, float* to,
                        const Item& item, Matrix& read) const {
  read = {reinterpret_cast<const float*>(from), rows.row};
  if (rows.in_place) return true;
  if (rows.convert && !run_kernel(*(is_short ? rows.convert_short : rows.convert), from, to, item))
    return false;
  for (int64_t i = 0; i < count; ++i) {
    float* row = to + i * rows.floats;
    if (!rows.convert) std::copy_n(read.at + i * rows.row, rows.length, row);
    std::fill(row + rows.length, row + rows.floats, 0.0f);
  }
  read = {to, rows.floats};
  return true;
}

bool GradientStep::write(const Rows& rows, const float* from, int64_t count, bool is_short, char* to,
                         const Item& item) const {
  if (rows.convert) return run_kernel(*(is_short ? rows.convert_short : rows.convert), from, to, item);
  for (int64_t i = 0; i < count; ++i)
    std::copy_n(from + i * rows.floats, rows.length, reinterpret_cast<float*>(to) + i * rows.row);
  return true;
}

bool GradientStep::write_sums(const Item& item) const {
  return write(dk_, item.sums, keys, false, at(item, dk_, item.key_head, 0), item) &&
         write(dv_, item.sums + keys * dk_.floats, keys, false, at(item, dv_, item.key_head, 0), item);
}

GradientStep::Group GradientStep::group_of(const Item& item, int64_t index) const {
  const int64_t g = index % groups_, first = g * group_, count = std::min(group_, rows - first);
  Group made{item.key_head * heads_per_key() + index / groups_, first, count, count < group_, keys, 0};
  if (causal && keys > 0) {
    made.step = static_cast<size_t>(ceil_div(std::min(keys, first + count), kColumns) - 1);
    made.columns = std::min(keys, static_cast<int64_t>(made.step + 1) * kColumns);
  }
  return made;
}

bool GradientStep::compute_weights(const Item& item, const Group& group) const {
  const void* mask_at = nullptr;
  if (mask.used()) {
    const int64_t offset =
        mask.offset + item.b * mask_strides[0] + group.head * mask_strides[1] + group.first * mask_strides[2];
    mask_at = static_cast<const char*>(item.buffers[mask.buffer]) + offset * element;
  }
  const auto first_hidden = static_cast<int32_t>(std::min(group.first + 1, keys));
  const bool* kept_at = row_of_kept(kept, item.buffers, item.b, group.head, group.first);
  const Scores scores{item.scratch + parts_.scores, &scale, mask_at, &first_hidden, kept_at, &gain};
  const Step& step = *softmax_[group.is_short][group.step];
  const float *weights = item.scratch + parts_.weights, *kept_weights = item.scratch + parts_.kept_weights;
  return kernels->softmax->run(step, scores, {weights, kept_weights}, kernel_scratch(item)).ok();
}

bool GradientStep::compute_scores_gradient(const Item& item, const Group& group) const {
  const float *weights = item.scratch + parts_.weights, *d = item.scratch + parts_.scores,
              *result = item.scratch + parts_.gradient;
  const void* plain[] = {weights, d, &scale, result};
  const void* with_dropout[] = {item.scratch + parts_.kept_weights, d, weights, &scale, result};
  return inner::run(*softmax_gradient_[group.is_short][group.step],
                    const_cast<void**>(kept.used() ? with_dropout : plain), kernel_scratch(item))
      .ok();
}

bool GradientStep::compute_group(const Item& item, const Group& group, const Matrix& key_rows) const {
  float *scores = item.scratch + parts_.scores, *dk = item.sums, *dv = dk + keys * dk_.floats;
  const float *weights = item.scratch + parts_.kept_weights, *ds = item.scratch + parts_.gradient;
  const int64_t count = group.count, columns = group.columns, w = panel_width();
  const auto read_group = [&](const Rows& rows, int64_t part, Matrix& m) {
    return read(rows, at(item, rows, group.head, group.first), count, group.is_short, item.scratch + part,
                item, m);
  };
  Matrix x, dy_rows;
  if (!read_group(q_, parts_.queries, x) || !read_group(dy_, parts_.results, dy_rows)) return false;
  multiply({x.at, x.stride, count, depth, scores, columns_, columns}, item.scratch + parts_.key_panels,
           w * depth, w);
  if (columns > 0 && !compute_weights(item, group)) return false;
  multiply({dy_rows.at, dy_rows.stride, count, width, scores, columns_, columns},
           item.scratch + parts_.value_panels, w * width, w);
  if (columns > 0 && !compute_scores_gradient(item, group)) return false;
  // By rows of weights and of ds as columns.
  multiply({weights, 1, columns, count, dv, dv_.floats, width, true, columns_}, dy_rows.at, w,
           dy_rows.stride);
  multiply({ds, 1, columns, count, dk, dk_.floats, depth, true, columns_}, x.at, w, x.stride);
  char* to = at(item, dq_, group.head, group.first);
  float* dq = dq_.in_place ? reinterpret_cast<float*>(to) : item.scratch + parts_.dq;
  const int64_t dq_stride = dq_.in_place ? dq_.row : dq_.floats;
  multiply({ds, columns_, count, columns, dq, dq_stride, depth}, key_rows.at, w, key_rows.stride);
  return dq_.in_place || write(dq_, dq, count, group.is_short, to, item);
}

bool GradientStep::compute(const Item& item) const {
  Matrix key_rows, value_rows;
  if (!read(k_, at(item, k_, item.key_head, 0), keys, false, item.scratch + parts_.keys, item, key_rows) ||
      !read(v_, at(item, v_, item.key_head, 0), keys, false, item.scratch + parts_.values, item, value_rows))
    return false;
  pack(key_rows.at, key_rows.stride, keys, depth, item.scratch + parts_.key_panels);
  pack(value_rows.at, value_rows.stride, keys, width, item.scratch + parts_.value_panels);
  std::fill_n(item.sums, keys * (dk_.floats + dv_.floats), 0.0f);
  for (int64_t i = item.from; i < item.to; ++i)
    if (!compute_group(item, group_of(item, i), key_rows)) return false;
  return parts_of_head_ > 1 || write_sums(item);
}

// Adds up the sums of the items of a head of k, in their order.
bool GradientStep::join(const Run& run, int thread, int64_t head) const {
  const Item item = item_of(run, thread, head * parts_of_head_);
  for (int64_t part = 1; part < parts_of_head_; ++part) {
    const float* more = item.sums + part * sums_floats_;
    for (int64_t i = 0; i < sums_floats_; ++i) item.sums[i] += more[i];
  }
  return write_sums(item);
}

Status GradientStep::run(void* const* buffers, char* scratch, const RunOn& on) const {
  const int64_t key_heads_of_all = batch * key_heads;
  if (key_heads_of_all == 0) return {};
  Run run{this, buffers, reinterpret_cast<float*>(scratch)};
  on.parallel.run(
      key_heads_of_all * parts_of_head_, threads_,
      [](void* arg, int thread, int64_t begin, int64_t end) {
        auto& r = *static_cast<Run*>(arg);
        for (int64_t i = begin; i < end; ++i)
          if (!r.step->compute(r.step->item_of(r, thread, i))) r.failed = true;
      },
      &run);
  if (parts_of_head_ > 1)
    on.parallel.run(
        key_heads_of_all, threads_,
        [](void* arg, int thread, int64_t begin, int64_t end) {
          auto& r = *static_cast<Run*>(arg);
          for (int64_t i = begin; i < end; ++i)
            if (!r.step->join(r, thread, i)) r.failed = true;
        },
        &run);
  TENON_CHECK(!run.failed, "a kernel of the gradient of attention has failed");
  return {};
}

}  // namespace tenon::attention

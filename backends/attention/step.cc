// See step.h.
#include "backends/attention/step.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "backends/inner/few_rows.h"
#include "backends/inner/product.h"
#include "src/base/align.h"

namespace tenon::attention {
namespace {

using inner::panel_width;
using inner::whole_panels;

constexpr int64_t kKeys = 512;      // most keys of a block: their k and v stay in the second cache
constexpr int64_t kGroup = 48;      // most rows of a group: its scores stay in the second cache too
constexpr int64_t kMostGroups = 5;  // most groups that use one packed block of keys
constexpr int64_t kFewRows = 4;     // with so few rows copies of k and v cost more than they save

}  // namespace

// The rows of a group: their first, how many, and whether they are fewer than those of other groups.
struct AttentionStep::Rows {
  int64_t first, count;
  bool is_short;
};

// Some groups of a head, and the scratch memory of the thread that computes them.
struct AttentionStep::Item {
  const char *q, *k, *v, *mask;
  const bool* kept;
  char* y;
  float* scratch;
  int64_t from, to;      // groups
  const float* queries;  // q in f32, from the first row of the item on
  int64_t query_stride;

  char* kernel(const Parts& parts) const { return reinterpret_cast<char*>(scratch + parts.kernel); }
};

// A block of keys and values. With many rows the columns of the keys lie in panels, and values are f32.
struct AttentionStep::Keys {
  int64_t first, count;
  const void *k, *v;
  int64_t k_stride, v_stride;
};

struct AttentionStep::Run {
  const AttentionStep* step;
  void* const* buffers;
  float* scratch;
  std::atomic<bool> failed{false};
};

AttentionStep::Rows AttentionStep::rows_of(int64_t g) const {
  const int64_t count = std::min(group_, rows - g * group_);
  return {g * group_, count, count < group_};
}

Status AttentionStep::plan(int most_threads) {
  groups_ = ceil_div(rows, kGroup);
  group_ = ceil_div(rows, std::max<int64_t>(groups_, 1));
  groups_ = ceil_div(rows, std::max<int64_t>(group_, 1));
  block_ = whole_panels(ceil_div(keys, std::max<int64_t>(ceil_div(keys, kKeys), 1)));
  const int64_t all = batch * heads * groups_, work = all * group_ * keys * (depth + width);
  const int64_t most = std::min<int64_t>(most_threads, std::max<int64_t>(all, 1));
  threads_ = static_cast<int>(std::clamp<int64_t>(work / kWorkPerThread, 1, most));
  item_groups_ = std::clamp<int64_t>(all / (4 * threads_), 1, kMostGroups);
  in_place_ = rows <= kFewRows;
  widens_keys_ = widens() && !in_place_;
  copies_values_ = widens_keys_ || (!in_place_ && width % panel_width() != 0);
  TENON_TRY(prepare_kernels());
  plan_scratch();
  return {};
}

Status AttentionStep::prepare_kernels() {
  if (groups_ == 0) return {};
  // The length of a whole group or block, then that of a short last one; 0: there is none.
  const int64_t group_rows[] = {group_, rows % group_};
  const int64_t block_keys[] = {keys >= block_ ? block_ : 0, keys > 0 ? keys % block_ : 0};
  for (const bool short_group : {false, true}) {
    const int64_t r = group_rows[short_group];
    if (r == 0) continue;
    TENON_TRY(planned_.prepare(
        *kernels->quotient,
        {{"R", r}, {"D", width}, {"S", whole_panels(width)}, {"Y", y.strides[1]}, {"E", y.strides[3]}},
        &quotient_[short_group]));
    if (widens())
      TENON_TRY(planned_.prepare(*kernels->widen, {{"R", r}, {"D", depth}, {"A", q.strides[1]}, {"Z", depth}},
                                 &widen_q_[short_group]));
  }
  for (const bool short_block : {false, true}) {
    const int64_t c = block_keys[short_block];
    if (c == 0) continue;
    if (widens_keys_) {
      TENON_TRY(planned_.prepare(*kernels->widen, {{"R", c}, {"D", depth}, {"A", k.strides[1]}, {"Z", depth}},
                                 &widen_k_[short_block]));
      TENON_TRY(planned_.prepare(*kernels->widen,
                                 {{"R", c}, {"D", width}, {"A", v.strides[1]}, {"Z", whole_panels(width)}},
                                 &widen_v_[short_block]));
    }
    for (const bool short_group : {false, true}) {
      const int64_t r = group_rows[short_group];
      if (r == 0) continue;
      const inner::Kernel::Values sizes = {{"R", r},
                                           {"K", c},
                                           {"S", block_},
                                           {"A", mask.used() ? mask_strides[2] : 0},
                                           {"B", mask.used() ? mask_strides[3] : 0},
                                           {"G", kept.used() ? kept.strides[2] : 0}};
      TENON_TRY(planned_.prepare(kernels->whole->kernel(), sizes, &whole_[short_group][short_block]));
      if (causal) TENON_TRY(planned_.prepare(kernels->cut->kernel(), sizes, &cut_[short_group][short_block]));
    }
  }
  return {};
}

void AttentionStep::plan_scratch() {
  ScratchFloats scratch;
  const auto take = [&](int64_t floats) { return scratch.take(floats); };
  const int64_t item_rows = item_groups_ * group_;
  parts_.queries = take(widens() ? item_rows * depth : 0);
  parts_.keys = take(widens_keys_ ? block_ * depth : 0);
  parts_.panels = take(in_place_ ? 0 : block_ * depth);
  parts_.values = take(copies_values_ ? block_ * whole_panels(width) : 0);
  parts_.scores = take(group_ * block_);
  parts_.weights = take(group_ * block_);
  parts_.products = take(in_place_ ? rows * width : 0);
  parts_.sums = take(item_rows * whole_panels(width));
  parts_.largest = take(item_rows);
  parts_.total = take(item_rows);
  parts_.next = take(2 * group_);
  parts_.factors = take(group_);
  parts_.kernel = take(ceil_div(planned_.scratch, kFloat));
  parts_.end = scratch.end;
}

AttentionStep::Item AttentionStep::item_of(const Run& run, int thread, int64_t index) const {
  const int64_t per_head = ceil_div(groups_, item_groups_), head = index / per_head % heads,
                b = index / per_head / heads, key_head = head / heads_per_key;
  int64_t part = index % per_head;
  // Later rows see more keys: pairs of an early and a late item keep threads equally busy.
  if (causal) part = part % 2 == 0 ? part / 2 : per_head - 1 - part / 2;
  const auto at = [&](const PlacedOperand& o, int64_t offset) {
    return static_cast<char*>(run.buffers[o.buffer]) + (o.offset + offset) * element;
  };
  const auto at_head = [&](const PlacedOperand& o, int64_t h) {
    return at(o, b * o.strides[0] + h * o.strides[2]);
  };
  Item made;
  made.q = at_head(q, head);
  made.k = at_head(k, key_head);
  made.v = at_head(v, key_head);
  made.y = at_head(y, head);
  made.mask = mask.used() ? at(mask, b * mask_strides[0] + head * mask_strides[1]) : nullptr;
  made.kept = row_of_kept(kept, run.buffers, b, head, 0);
  made.scratch = run.scratch + thread * parts_.end;
  made.from = part * item_groups_;
  made.to = std::min(groups_, made.from + item_groups_);
  return made;
}

bool AttentionStep::widen(const Step& step, const char* from, float* to, const Item& item) const {
  void* buffers[] = {const_cast<char*>(from), to};
  return inner::run(step, buffers, item.kernel(parts_)).ok();
}

bool AttentionStep::widen_queries(Item& item) const {
  const int64_t first = item.from * group_;
  item.query_stride = widens() ? depth : q.strides[1];
  item.queries = widens() ? item.scratch + parts_.queries
                          : reinterpret_cast<const float*>(item.q + first * q.strides[1] * element);
  for (int64_t g = item.from; widens() && g < item.to; ++g) {
    const Rows r = rows_of(g);
    if (!widen(*widen_q_[r.is_short], item.q + r.first * q.strides[1] * element,
               item.scratch + parts_.queries + (r.first - first) * depth, item))
      return false;
  }
  return true;
}

bool AttentionStep::take_keys(const Item& item, Keys& block) const {
  const int64_t w = panel_width(), wide = whole_panels(width);
  const char* k_at = item.k + block.first * k.strides[1] * element;
  const char* v_at = item.v + block.first * v.strides[1] * element;
  const bool is_short = block.count < block_;
  block.k = k_at;
  block.k_stride = k.strides[1];
  block.v = v_at;
  block.v_stride = v.strides[1];
  if (in_place_) return true;
  if (widens_keys_) {
    float* to = item.scratch + parts_.keys;
    if (!widen(*widen_k_[is_short], k_at, to, item)) return false;
    block.k = to;
    block.k_stride = depth;
  }
  const auto* key = static_cast<const float*>(block.k);
  for (int64_t j = 0; j < block.count; j += w)
    inner::pack_columns(key + j * block.k_stride, block.k_stride, 1, std::min(w, block.count - j), depth,
                        item.scratch + parts_.panels + j * depth);
  if (!copies_values_) return true;
  float* to = item.scratch + parts_.values;
  if (widens_keys_ && !widen(*widen_v_[is_short], v_at, to, item)) return false;
  const auto* value = static_cast<const float*>(block.v);
  for (int64_t i = 0; i < block.count; ++i) {
    if (!widens_keys_) std::copy_n(value + i * block.v_stride, width, to + i * wide);
    std::fill(to + i * wide + width, to + (i + 1) * wide, 0.0f);
  }
  block.v = to;
  block.v_stride = wide;
  return true;
}

bool AttentionStep::compute_block(const Item& item, const Rows& r, const Keys& block, float* sums,
                                  float* largest, float* total) const {
  const int64_t w = panel_width(), last_row = r.first + r.count - 1;
  const int64_t seen =
      causal ? std::min(block.count, last_row + 1 - block.first) : block.count;  // by the last row
  const bool on_diagonal = causal && block.first + block.count - 1 > r.first;
  const float* x = item.queries + (r.first - item.from * group_) * item.query_stride;
  float* scores = item.scratch + parts_.scores;
  if (in_place_) {
    inner::multiply(
        {x, item.query_stride, r.count, block.k, dtype, 1, block.k_stride, depth, nullptr, 0, scores, block_},
        0, seen);
  } else {
    for (int64_t j = 0; j < seen; j += w)
      inner::multiply({.x = x,
                       .x_stride = item.query_stride,
                       .rows = r.count,
                       .panel = item.scratch + parts_.panels + j * depth,
                       .panel_stride = w,
                       .depth = depth,
                       .y = scores + j,
                       .y_stride = block_,
                       .columns = seen - j});
  }
  const auto hidden = static_cast<int32_t>(std::min<int64_t>(r.first + 1 - block.first, block.count));
  float *weights = item.scratch + parts_.weights, *factors = item.scratch + parts_.factors,
        *next_largest = item.scratch + parts_.next, *next_total = next_largest + r.count;
  const char* mask_at = item.mask;
  if (mask_at) mask_at += (r.first * mask_strides[2] + block.first * mask_strides[3]) * element;
  const bool* kept_at = item.kept;
  if (kept_at) kept_at += r.first * kept.strides[2] + block.first;
  const Softmax& softmax = on_diagonal ? *kernels->cut : *kernels->whole;
  const Step& step = *(on_diagonal ? cut_ : whole_)[r.is_short][block.count < block_];
  if (!softmax
           .run(step, {scores, &scale, mask_at, &hidden, kept_at, &gain},
                {largest, total, next_largest, weights, factors, next_total}, item.kernel(parts_))
           .ok())
    return false;
  std::copy_n(next_largest, r.count, largest);
  std::copy_n(next_total, r.count, total);
  if (in_place_ && (widens() || width % w != 0)) {
    float* products = item.scratch + parts_.products;
    inner::multiply(
        {weights, block_, r.count, block.v, dtype, block.v_stride, 1, seen, nullptr, 0, products, width}, 0,
        width);
    for (int64_t i = 0; i < r.count; ++i)
      for (int64_t j = 0; j < width; ++j) {
        float& sum = sums[i * whole_panels(width) + j];
        sum = sum * factors[i] + products[i * width + j];
      }
    return true;
  }
  for (int64_t j = 0; j < width; j += w)
    inner::multiply({.x = weights,
                     .x_stride = block_,
                     .rows = r.count,
                     .panel = static_cast<const float*>(block.v) + j,
                     .panel_stride = block.v_stride,
                     .depth = seen,
                     .y = sums + j,
                     .y_stride = whole_panels(width),
                     .factors = factors,
                     .columns = width - j});
  return true;
}

bool AttentionStep::compute(Item item) const {
  const int64_t wide = whole_panels(width), first = item.from * group_,
                end = std::min(rows, item.to * group_);
  float *sums = item.scratch + parts_.sums, *largest = item.scratch + parts_.largest,
        *total = item.scratch + parts_.total;
  std::fill_n(sums, (end - first) * wide, 0.0f);
  std::fill_n(largest, end - first, -std::numeric_limits<float>::infinity());
  std::fill_n(total, end - first, 0.0f);
  const int64_t seen = causal ? std::min(keys, end) : keys;
  if (seen > 0 && !widen_queries(item)) return false;
  for (int64_t key = 0; key < seen; key += block_) {
    Keys block{key, std::min(block_, keys - key), nullptr, nullptr, 0, 0};
    if (!take_keys(item, block)) return false;
    for (int64_t g = item.from; g < item.to; ++g) {
      const Rows r = rows_of(g);
      if (causal && key >= r.first + r.count) continue;
      const int64_t at = r.first - first;
      if (!compute_block(item, r, block, sums + at * wide, largest + at, total + at)) return false;
    }
  }
  for (int64_t g = item.from; g < item.to; ++g) {
    const Rows r = rows_of(g);
    void* buffers[] = {sums + (r.first - first) * wide, total + (r.first - first),
                       item.y + r.first * y.strides[1] * element};
    if (!inner::run(*quotient_[r.is_short], buffers, item.kernel(parts_)).ok()) return false;
  }
  return true;
}

Status AttentionStep::run(void* const* buffers, char* scratch, const RunOn& on) const {
  if (batch * heads * rows * width == 0) return {};
  Run run{this, buffers, reinterpret_cast<float*>(scratch)};
  on.parallel.run(
      batch * heads * ceil_div(groups_, item_groups_), threads_,
      [](void* arg, int thread, int64_t begin, int64_t end) {
        auto& r = *static_cast<Run*>(arg);
        for (int64_t i = begin; i < end; ++i)
          if (!r.step->compute(r.step->item_of(r, thread, i))) r.failed = true;
      },
      &run);
  TENON_CHECK(!run.failed, "a kernel of attention has failed");
  return {};
}

}  // namespace tenon::attention

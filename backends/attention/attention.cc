// See attention.h. A group is one node, arranged as heads_last: q, y [B,L,H,D], k and v [B,S,H,D].
#include "backends/attention/attention.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>

#include "backends/attention/kernels.h"
#include "backends/inner/placed_operand.h"
#include "backends/inner/product.h"
#include "src/base/align.h"
#include "src/base/threads/immortal.h"
#include "src/ir/group.h"
#include "src/ops/bodies/body_help.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/operand.h"
#include "src/ops/rules/view.h"

namespace tenon::attention {
namespace {

using inner::PlacedOperand, inner::panel_width;

constexpr int64_t kKeys = 512;      // most columns of a block: their k and v stay in the second cache
constexpr int64_t kGroup = 48;      // most rows that go through a block at once: their scores do too
constexpr int64_t kMostGroups = 5;  // that use a packed block of keys
constexpr int64_t kFewRows = 4;     // do not pay for packing k
constexpr int64_t kWorkPerThread = 1 << 15;  // multiply-adds; fewer do not pay for waking a thread
constexpr int64_t kItem = sizeof(float);

int64_t parts_of(int64_t n, int64_t size) { return (n + size - 1) / size; }
int64_t padded(int64_t n) { return parts_of(n, panel_width()) * panel_width(); }

// The kernels of a node.
struct Kernels {
  std::unique_ptr<Softmax> whole, cut;  // cut: for blocks on the diagonal of a causal mask, null without one
  std::unique_ptr<inner::Kernel> quotient;
};

class AttentionStep final : public Step {
 public:
  const Kernels* kernels = nullptr;
  float scale = 1;
  bool causal = false;
  PlacedOperand q, k, v, y, mask;
  std::vector<int64_t> mask_strides;                 // [batch, head, row, column]
  int64_t batch = 0, heads = 0, heads_per_key = 1;   // heads of q that share a head of k
  int64_t rows = 0, keys = 0, depth = 0, width = 0;  // width: of a row of v
  int64_t group = 0, groups = 0, item_groups = 1;    // rows of a group, groups of a head, groups of an item
  int64_t block = 0;                                 // keys of a block
  int threads = 1;
  bool packs_keys = true, packs_values = true;
  // By whether the group is the last of its head and whether the block is the last of the keys.
  using Steps = std::array<std::array<std::unique_ptr<Step>, 2>, 2>;
  Steps whole, cut;
  std::array<std::unique_ptr<Step>, 2> quotient;

  // Scratch memory of a thread: floats in front of each part.
  struct Parts {
    int64_t keys = 0, values = 0, scores = 0, weights = 0, sums = 0, largest = 0, total = 0, next = 0,
            factors = 0, kernel = 0, end = 0;
  } parts;

  Status plan(int most_threads);
  int64_t scratch_bytes() const override { return threads * parts.end * kItem; }
  int64_t bytes() const override {
    int64_t sum = sizeof *this;
    for (const Steps* steps : {&whole, &cut})
      for (const auto& pair : *steps)
        for (const auto& step : pair) sum += step ? step->bytes() : 0;
    for (const auto& step : quotient) sum += step ? step->bytes() : 0;
    return sum;
  }
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override;

 private:
  struct Run {
    const AttentionStep* step;
    void* const* buffers;
    float* scratch;
    std::atomic<bool> failed{false};
  };
  // The rows of a group: their first, how many, and whether they are the last of their head.
  struct Rows {
    int64_t first, count;
    bool last;
  };
  // The memory of an item: some groups of a head.
  struct Item {
    const float *q, *k, *v;
    const float* mask;
    float* y;
    float* scratch;
    int64_t from, to;  // groups
  };
  Rows rows_of(int64_t g) const { return {g * group, std::min(group, rows - g * group), g + 1 == groups}; }
  Item item_of(const Run& run, int thread, int64_t index) const;
  bool compute(const Item& item) const;
  bool compute_block(const Item& item, const Rows& r, int64_t first_key, int64_t count, float* sums,
                     float* largest, float* total) const;
  void pack(const Item& item, int64_t first_key, int64_t count) const;
};

Status AttentionStep::plan(int most_threads) {
  groups = parts_of(rows, kGroup);
  group = parts_of(rows, std::max<int64_t>(groups, 1));
  groups = parts_of(rows, std::max<int64_t>(group, 1));
  block = padded(parts_of(keys, std::max<int64_t>(parts_of(keys, kKeys), 1)));
  const int64_t all = batch * heads * groups, work = all * group * keys * (depth + width);
  threads = static_cast<int>(std::clamp<int64_t>(work / kWorkPerThread, 1,
                                                 std::min<int64_t>(most_threads, std::max<int64_t>(all, 1))));
  item_groups = std::clamp<int64_t>(all / (4 * threads), 1, kMostGroups);
  packs_keys = rows > kFewRows;
  packs_values = width % panel_width() != 0;

  int64_t at = 0;
  const auto take = [&](int64_t floats) {
    const int64_t start = at;
    at = align_up((at + floats) * kItem) / kItem;
    return start;
  };
  const int64_t item_rows = item_groups * group;
  parts.keys = take(packs_keys ? block * depth : 0);
  parts.values = take(packs_values ? block * padded(width) : 0);
  parts.scores = take(group * block);
  parts.weights = take(group * block);
  parts.sums = take(item_rows * padded(width));
  parts.largest = take(item_rows);
  parts.total = take(item_rows);
  parts.next = take(2 * group);
  parts.factors = take(group);
  int64_t most = 0;
  const auto counted = [&](const std::unique_ptr<Step>& step) {
    most = std::max(most, step->scratch_bytes());
  };
  for (const bool last_rows : {false, true}) {
    const int64_t r = last_rows ? rows - (groups - 1) * group : group;
    if (groups == 0) break;
    for (const bool last_keys : {false, true}) {
      const int64_t blocks = parts_of(keys, std::max<int64_t>(block, 1));
      if (blocks == 0) break;
      const int64_t c = last_keys ? keys - (blocks - 1) * block : block;
      const BlockShape shape{r, c, block, mask.used() ? mask_strides[2] : 0,
                             mask.used() ? mask_strides[3] : 0};
      TENON_ASSIGN(whole[last_rows][last_keys], kernels->whole->prepare(shape));
      counted(whole[last_rows][last_keys]);
      if (!causal) continue;
      TENON_ASSIGN(cut[last_rows][last_keys], kernels->cut->prepare(shape));
      counted(cut[last_rows][last_keys]);
    }
    TENON_ASSIGN(
        quotient[last_rows],
        kernels->quotient->prepare(
            {{"R", r}, {"D", width}, {"S", padded(width)}, {"Y", y.strides[1]}, {"E", y.strides[3]}}));
    counted(quotient[last_rows]);
  }
  parts.kernel = take(parts_of(most, kItem));
  parts.end = at;
  return {};
}

AttentionStep::Item AttentionStep::item_of(const Run& run, int thread, int64_t index) const {
  const int64_t per_head = parts_of(groups, item_groups);
  const int64_t head = index / per_head % heads, b = index / per_head / heads,
                key_head = head / heads_per_key;
  int64_t part = index % per_head;
  // Later rows see more keys: pairs of an early and a late item keep threads equally busy.
  if (causal) part = part % 2 == 0 ? part / 2 : per_head - 1 - part / 2;
  Item item;
  item.q = q.of(run.buffers) + b * q.strides[0] + head * q.strides[2];
  item.k = k.of(run.buffers) + b * k.strides[0] + key_head * k.strides[2];
  item.v = v.of(run.buffers) + b * v.strides[0] + key_head * v.strides[2];
  item.y = y.of(run.buffers) + b * y.strides[0] + head * y.strides[2];
  item.mask = mask.used() ? mask.of(run.buffers) + b * mask_strides[0] + head * mask_strides[1] : nullptr;
  item.scratch = run.scratch + thread * parts.end;
  item.from = part * item_groups;
  item.to = std::min(groups, item.from + item_groups);
  return item;
}

void AttentionStep::pack(const Item& item, int64_t first_key, int64_t count) const {
  const int64_t w = panel_width();
  if (packs_keys)
    for (int64_t j = 0; j < count; j += w)
      inner::pack_columns(item.k + (first_key + j) * k.strides[1], k.strides[1], 1, std::min(w, count - j),
                          depth, item.scratch + parts.keys + j * depth);
  if (!packs_values) return;
  for (int64_t j = 0; j < width; j += w) {
    const int64_t columns = std::min(w, width - j);
    float* to = item.scratch + parts.values + j * block;
    for (int64_t i = 0; i < count; ++i, to += w) {
      std::copy_n(item.v + (first_key + i) * v.strides[1] + j, columns, to);
      std::fill(to + columns, to + w, 0.0f);
    }
  }
}

bool AttentionStep::compute_block(const Item& item, const Rows& r, int64_t first_key, int64_t count,
                                  float* sums, float* largest, float* total) const {
  const int64_t w = panel_width(), last_row = r.first + r.count - 1;
  const int64_t seen = causal ? std::min(count, last_row + 1 - first_key) : count;  // by the last row
  const bool on_diagonal = causal && first_key + count - 1 > r.first;
  const float* x = item.q + r.first * q.strides[1];
  float* scores = item.scratch + parts.scores;
  if (packs_keys) {
    for (int64_t j = 0; j < seen; j += w)
      inner::multiply(
          {x, q.strides[1], r.count, item.scratch + parts.keys + j * depth, w, depth, scores + j, block});
  } else {
    inner::multiply_columns(x, q.strides[1], r.count, item.k + first_key * k.strides[1], k.strides[1],
                            nullptr, 0, seen, depth, scores, block);
  }
  const auto hidden = static_cast<int32_t>(std::min<int64_t>(r.first + 1 - first_key, count));
  float *weights = item.scratch + parts.weights, *factors = item.scratch + parts.factors,
        *next_largest = item.scratch + parts.next, *next_total = next_largest + r.count;
  const Block memory{
      scores,
      &scale,
      item.mask ? item.mask + r.first * mask_strides[2] + first_key * mask_strides[3] : nullptr,
      &hidden,
      largest,
      total,
      weights,
      next_largest,
      next_total,
      factors};
  const bool last_keys = first_key + count == keys;
  const Softmax& softmax = on_diagonal ? *kernels->cut : *kernels->whole;
  const Step& step = *(on_diagonal ? cut : whole)[r.last][last_keys];
  if (!softmax.run(step, memory, reinterpret_cast<char*>(item.scratch + parts.kernel)).ok()) return false;
  std::copy_n(next_largest, r.count, largest);
  std::copy_n(next_total, r.count, total);
  for (int64_t j = 0; j < width; j += w) {
    const float* panel =
        packs_values ? item.scratch + parts.values + j * block : item.v + first_key * v.strides[1] + j;
    inner::multiply({weights, block, r.count, panel, packs_values ? w : v.strides[1], seen, sums + j,
                     padded(width), nullptr, factors});
  }
  return true;
}

bool AttentionStep::compute(const Item& item) const {
  const int64_t wide = padded(width), first = item.from * group, end = std::min(rows, item.to * group);
  float *sums = item.scratch + parts.sums, *largest = item.scratch + parts.largest,
        *total = item.scratch + parts.total;
  std::fill_n(sums, (end - first) * wide, 0.0f);
  std::fill_n(largest, end - first, -std::numeric_limits<float>::infinity());
  std::fill_n(total, end - first, 0.0f);
  for (int64_t key = 0; key < (causal ? std::min(keys, end) : keys); key += block) {
    const int64_t count = std::min(block, keys - key);
    pack(item, key, count);
    for (int64_t g = item.from; g < item.to; ++g) {
      const Rows r = rows_of(g);
      if (causal && key >= r.first + r.count) continue;
      const int64_t at = r.first - first;
      if (!compute_block(item, r, key, count, sums + at * wide, largest + at, total + at)) return false;
    }
  }
  for (int64_t g = item.from; g < item.to; ++g) {
    const Rows r = rows_of(g);
    void* buffers[] = {sums + (r.first - first) * wide, total + (r.first - first),
                       item.y + r.first * y.strides[1]};
    if (!inner::run(*quotient[r.last], buffers, reinterpret_cast<char*>(item.scratch + parts.kernel)).ok())
      return false;
  }
  return true;
}

Status AttentionStep::run(void* const* buffers, char* scratch, const RunOn& on) const {
  if (batch * heads * rows * width == 0) return {};
  Run run{this, buffers, reinterpret_cast<float*>(scratch)};
  on.parallel.run(
      batch * heads * parts_of(groups, item_groups), threads,
      [](void* arg, int thread, int64_t begin, int64_t end) {
        auto& r = *static_cast<Run*>(arg);
        for (int64_t i = begin; i < end; ++i)
          if (!r.step->compute(r.step->item_of(r, thread, i))) r.failed = true;
      },
      &run);
  TENON_CHECK(!run.failed, "a kernel of attention has failed");
  return {};
}

class AttentionNode final : public Executable {
 public:
  Operand q, k, v, y;
  std::optional<Operand> mask;
  float scale = 1;
  bool causal = false;
  Kernels kernels;

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    auto step = std::make_unique<AttentionStep>();
    step->kernels = &kernels;
    step->scale = scale;
    step->causal = causal;
    step->q = PlacedOperand(q, sizes);
    step->k = PlacedOperand(k, sizes);
    step->v = PlacedOperand(v, sizes);
    step->y = PlacedOperand(y, sizes);
    step->batch = step->q.shape[0];
    step->rows = step->q.shape[1];
    step->heads = step->q.shape[2];
    step->depth = step->q.shape[3];
    step->keys = step->k.shape[1];
    step->width = step->v.shape[3];
    if (step->k.shape[2] > 0) step->heads_per_key = step->heads / step->k.shape[2];
    if (mask) place_mask(*step, sizes);
    if (step->rows == 1 && step->heads_per_key > 1 && !causal) join_heads(*step);
    TENON_TRY(step->plan(sizes.threads));
    return std::unique_ptr<Step>(std::move(step));
  }
  bool may_fail() const override { return false; }
  std::string describe() const override {
    return std::string("attention") + (causal ? ", causal" : "") + (mask ? ", with a mask" : "") +
           ", in blocks of scores\n" + kernels.whole->kernel().describe();
  }

 private:
  void place_mask(AttentionStep& step, const Sizes& sizes) const {
    step.mask = PlacedOperand(*mask, sizes);
    step.mask_strides.assign(4, 0);  // axes that the mask lacks, or has once, are repeated
    const std::vector<int64_t> scores = {step.batch, step.heads, step.rows, step.keys};
    const size_t rank = step.mask.shape.size();
    for (size_t i = 0; i < rank; ++i)
      if (step.mask.shape[i] != 1) step.mask_strides[4 - rank + i] = step.mask.strides[i];
  }
  // Heads that share k and v become rows, if each has one row.
  static void join_heads(AttentionStep& step) {
    const int64_t group = step.heads_per_key;
    const auto join = [&](int64_t& row, int64_t& head) {
      row = head;
      head *= group;
    };
    join(step.q.strides[1], step.q.strides[2]);
    join(step.y.strides[1], step.y.strides[2]);
    if (step.mask.used()) join(step.mask_strides[2], step.mask_strides[1]);
    step.rows = group;
    step.heads /= group;
    step.heads_per_key = 1;
  }
};

bool dense_elements(const Graph& graph, ValueId v) {
  const auto view = view_of(graph, v, [&](ValueId x) { return bound_strides(graph, x); });
  return view && (view->strides.back() == Dim(1) || graph.type(v).shape.back() == Dim(1));
}

class AttentionBackend final : public Backend {
 public:
  std::string_view name() const override { return "attention"; }

  Bid bid(const Graph& graph, ValueId v) const override {
    const Node& node = graph.node(v);
    if (node.op != ops::attention) return {false, 0, std::string(op(node.op).name) + " is no attention"};
    for (const ValueId operand : node.inputs)
      if (graph.type(operand).dtype != DType::f32)
        return {false, 0, "attention of " + std::string(tenon::name(graph.type(operand).dtype))};
    return {true, 1, "blocks of scores stay in the cache"};
  }
  ValueId legalize(Builder& b, Node node) const override {
    return bodies::attention_heads_last(b, std::move(node));
  }
  bool reads(const Graph& graph, ValueId node, ValueId operand) const override {
    const std::vector<ValueId>& operands = graph.node(node).inputs;
    const auto at = std::find(operands.begin(), operands.end(), operand) - operands.begin();
    return at == 3 || dense_elements(graph, operand);
  }
  Bid joins(const Graph&, const Uses&, std::span<const ValueId>, ValueId) const override {
    return {false, 0, "nothing joins attention"};
  }

  Result<std::unique_ptr<Executable>> build_group(const BuildContext& context,
                                                  std::span<const ValueId> members) override {
    const Graph& g = context.graph;
    const ValueId v = members.back();
    const Node& node = g.node(v);
    TENON_CHECK(attr_as<std::string>(node, "layout") == "heads_last", "attention that was not arranged");
    auto e = std::make_unique<AttentionNode>();
    e->scale = static_cast<float>(attr_as<double>(node, "scale"));
    e->causal = attr_as<bool>(node, "causal");
    e->inputs = inputs_of(g, members);
    e->outputs = {v};
    const auto operand = [&](size_t i) {
      Operand o = operand_of(g, node.inputs[i], [&](ValueId x) { return context.strides_of(x); });
      o.buffer = e->position_of(o.base);
      return o;
    };
    e->q = operand(0);
    e->k = operand(1);
    e->v = operand(2);
    std::optional<Dim> mask_column;
    if (node.inputs.size() > 3) {
      e->mask = operand(3);
      const bool repeated = e->mask->shape.empty() || e->mask->shape.back() == Dim(1);
      mask_column = repeated ? Dim(0) : e->mask->strides.back();
    }
    e->y = stored_operand(g, v);
    e->y.strides = context.layouts[v].strides;
    e->y.buffer = static_cast<int>(e->inputs.size());
    TENON_ASSIGN(e->kernels.whole, Softmax::make(mask_column, false, context.allocator));
    if (e->causal) {
      TENON_ASSIGN(e->kernels.cut, Softmax::make(mask_column, true, context.allocator));
      e->kernels_compiled += e->kernels.cut->kernel().compiled();
    }
    TENON_ASSIGN(e->kernels.quotient, make_quotient(e->y.strides.back(), context.allocator));
    e->kernels_compiled += e->kernels.whole->kernel().compiled() + e->kernels.quotient->compiled();
    return std::unique_ptr<Executable>(std::move(e));
  }
  std::string describe() const override { return "attention, in blocks of scores"; }
};

}  // namespace
}  // namespace tenon::attention

namespace tenon {

Backend& attention_backend() { return immortal<attention::AttentionBackend>(); }

}  // namespace tenon

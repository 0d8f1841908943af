// See recurrent.h. A group is one node; gradient.h has those of gradients.
#include "backends/recurrent/recurrent.h"

#include <algorithm>
#include <atomic>

#include "backends/inner/dense_rows.h"
#include "backends/recurrent/cell.h"
#include "backends/recurrent/gradient.h"
#include "backends/recurrent/matrix.h"
#include "src/base/align.h"
#include "src/base/threads/immortal.h"
#include "src/ir/group.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/operand.h"
#include "src/ops/rules/recurrent.h"

namespace tenon::recurrent {
namespace {

constexpr int64_t kItem = sizeof(float);

struct Slice : UnitRange {
  explicit Slice(const UnitRange& range) : UnitRange(range) {}
  std::unique_ptr<Step> cell;
  int64_t at = 0;  // bytes of scratch in front of its own
};

class RecurrentStep final : public Step {
 public:
  const Cell* cell = nullptr;
  PlacedOperand x, state, cell_state, result;         // state and cell_state: before the first step
  bool in_place = false;                              // steps write their hidden states into the result
  Columns gates, projection;                          // projection: size 0 if there is none
  int64_t steps = 0, batch = 0, size = 0, width = 0;  // width: of a hidden state
  bool reverse = false, gives_cell = false;
  int64_t cell_stride = 1;  // of the cell states behind the hidden states
  int threads = 1;
  std::vector<Slice> slices;

  // Scratch memory: bytes in front of each part.
  struct Parts {
    int64_t state = 0, cells = 0, hidden = 0, gates = 0, projection = 0, result = 0, slices = 0, end = 0;
  } parts;

  void plan_scratch() {
    int64_t at = 0;
    const auto take = [&](int64_t floats) {
      const int64_t start = at;
      at = align_up(at + floats * kItem);
      return start;
    };
    parts.state = take(batch * width);
    parts.cells = take(has_cell() ? 2 * batch * size : 0);
    parts.hidden = take(projection.size > 0 ? batch * size : 0);
    parts.gates = take(gates.needs_packing() ? gates.floats() : 0);
    parts.projection = take(projection.needs_packing() ? projection.floats() : 0);
    parts.result = take(in_place ? 0 : result.elements());
    for (Slice& s : slices) {
      s.at = take(batch * std::max(gates.gates * s.padded, static_cast<int64_t>(panel_width())));
      at = align_up(at + s.cell->scratch_bytes());
    }
    parts.end = at;
  }
  int64_t scratch_bytes() const override { return parts.end; }
  int64_t bytes() const override {
    int64_t sum = static_cast<int64_t>(sizeof *this + slices.capacity() * sizeof(Slice));
    for (const Slice& s : slices) sum += s.cell->bytes();
    return sum;
  }
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override;

 private:
  bool has_cell() const { return gates.gates == 4; }  // an LSTM
  // The addresses of a run, and of the step of the sequence that is being computed.
  struct Walk {
    const RecurrentStep* step;
    char* scratch;
    Columns::Memory gates, projection;
    const float* x = nullptr;  // of this step
    const float *before = nullptr, *cell_before = nullptr;
    float *cell_after = nullptr, *hidden = nullptr, *after = nullptr;
    std::atomic<bool> failed{false};
  };
  float* part(char* scratch, int64_t at) const { return reinterpret_cast<float*>(scratch + at); }
  static void advance(void* arg, int thread, int64_t begin, int64_t end);
  static void project(void* arg, int thread, int64_t begin, int64_t end);
  void advance_slice(Walk& w, const Slice& slice) const;
};

void RecurrentStep::advance(void* arg, int, int64_t begin, int64_t end) {
  auto& w = *static_cast<Walk*>(arg);
  for (int64_t i = begin; i < end; ++i) w.step->advance_slice(w, w.step->slices[static_cast<size_t>(i)]);
}

void RecurrentStep::advance_slice(Walk& w, const Slice& slice) const {
  const int64_t first = slice.first, by = batch * slice.padded;
  float* sums = part(w.scratch, slice.at);
  for (int64_t gate = 0; gate < gates.gates; ++gate)
    for (int64_t block = slice.from; block < slice.to; ++block)
      gates.multiply(w.gates, w.before, width, batch, block, gate,
                     sums + gate * by + (block - slice.from) * panel_width(), slice.padded);
  const bool lstm = has_cell();
  const float* state_at = lstm ? w.cell_before : gates.gates == 3 ? w.before : nullptr;
  char* rest = w.scratch + slice.at + align_up(gates.gates * by * kItem);
  const Status status =
      cell->run(*slice.cell, w.x + first, size, sums, by, state_at ? state_at + first : nullptr,
                lstm ? w.cell_after + first : nullptr, w.hidden + first, rest);
  if (!status.ok()) w.failed = true;
}

void RecurrentStep::project(void* arg, int thread, int64_t begin, int64_t end) {
  auto& w = *static_cast<Walk*>(arg);
  const RecurrentStep& s = *w.step;
  float* sums = s.part(w.scratch, s.slices[static_cast<size_t>(thread)].at);
  for (int64_t block = begin; block < end; ++block) {
    s.projection.multiply(w.projection, w.hidden, s.size, s.batch, block, 0, sums, panel_width());
    const int64_t first = block * panel_width(), count = std::min<int64_t>(panel_width(), s.width - first);
    for (int64_t b = 0; b < s.batch; ++b)
      std::copy_n(sums + b * panel_width(), count, w.after + b * s.width + first);
  }
}

Status RecurrentStep::run(void* const* buffers, char* scratch, const RunOn& on) const {
  if (batch == 0 || size == 0) return {};
  Walk w{this, scratch, gates.in_run(buffers, part(scratch, parts.gates), threads, on.parallel),
         projection.in_run(buffers, part(scratch, parts.projection), threads, on.parallel)};
  const float* sequence = x.of(buffers);
  float* all = in_place ? result.of(buffers) : part(scratch, parts.result);
  const int64_t after_step = in_place ? result.strides[0] : batch * width;
  w.before = part(scratch, parts.state);
  state.copy_to(part(scratch, parts.state), buffers);
  float* cells = part(scratch, parts.cells);
  if (cell_state.used())
    cell_state.copy_to(cells, buffers);
  else if (has_cell())
    std::fill_n(cells, batch * size, 0.0f);
  w.cell_before = cells;
  const int count = static_cast<int>(slices.size());
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = reverse ? steps - 1 - i : i;
    w.x = sequence + t * x.strides[0];
    w.after = all + t * after_step;
    w.hidden = projection.size > 0 ? part(scratch, parts.hidden) : w.after;
    w.cell_after = cells + (i + 1) % 2 * batch * size;
    on.parallel.run(count, count, advance, &w);
    if (projection.size > 0) on.parallel.run(projection.blocks(), count, project, &w);
    w.before = w.after;
    w.cell_before = w.cell_after;
  }
  TENON_CHECK(!w.failed, "a kernel of a cell has failed");
  if (!in_place)
    copy_strided(reinterpret_cast<const char*>(all), result.dense,
                 reinterpret_cast<char*>(result.of(buffers)), result.strides, result.shape, kItem);
  if (gives_cell)
    copy_strided(reinterpret_cast<const char*>(w.cell_before), {1},
                 reinterpret_cast<char*>(result.of(buffers) + cell_stride * steps * batch * width),
                 {cell_stride}, {batch * size}, kItem);
  return {};
}

class RecurrentNode final : public Executable {
 public:
  std::string mode;
  bool reverse = false, gives_cell = false;
  Operand x, state, result;
  std::optional<Operand> cell_state;
  std::optional<Matrix> gates, projection;
  std::unique_ptr<Cell> cell;
  Allocator allocator;

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    auto step = std::make_unique<RecurrentStep>();
    step->cell = cell.get();
    inner::DenseRows dense(inputs.size() + outputs.size());
    step->x = PlacedOperand(x, sizes);
    dense.require(step->x, kItem);
    step->state = PlacedOperand(state, sizes);
    if (cell_state) step->cell_state = PlacedOperand(*cell_state, sizes);
    const int64_t products = step->x.shape[0] * step->x.shape[1];
    step->gates = gates->at(sizes, products, allocator);
    if (projection) step->projection = projection->at(sizes, products, allocator);
    step->steps = step->x.shape[0];
    step->batch = step->x.shape[1];
    step->size = step->gates.size;
    step->width = step->state.shape[1];
    step->reverse = reverse;
    step->gives_cell = gives_cell;
    step->result = PlacedOperand(result, sizes);
    if (gives_cell) {  // the vector starts with the hidden states
      step->cell_stride = step->result.strides.front();
      step->result.shape = {step->steps, step->batch, step->width};
      step->result.strides = step->result.dense = dense_strides(step->result.shape);
      for (int64_t& stride : step->result.strides) stride *= step->cell_stride;
    }
    step->in_place = step->result.has_rows() && (step->batch <= 1 || step->result.strides[1] == step->width);
    TENON_TRY(slice(*step, sizes.threads));
    step->plan_scratch();
    return std::move(dense).before(std::move(step));
  }
  bool may_fail() const override { return false; }
  std::string describe() const override {
    return "recurrent " + mode + (reverse ? " from the last step" : "") +
           ", each step one parallel region\n" + cell->describe();
  }

 private:
  // Distributes the units over threads.
  Status slice(RecurrentStep& step, int threads) const {
    const int64_t size = step.size, products = step.batch * step.gates.gates * size * step.width;
    step.threads = threads;
    for (const UnitRange& range : unit_ranges(size, products, threads)) {
      const Cell::Shape shape{step.batch, range.units, step.x.strides[1], range.padded, size, size};
      Slice s(range);
      TENON_ASSIGN(s.cell, cell->prepare(shape));
      step.slices.push_back(std::move(s));
    }
    return {};
  }
};

class RecurrentBackend final : public Backend {
 public:
  std::string_view name() const override { return "recurrent"; }

  Bid bid(const Graph& graph, ValueId v) const override {
    const Node& node = graph.node(v);
    if (node.op != ops::recurrent && node.op != ops::recurrent_gradient)
      return {false, 0, std::string(op(node.op).name) + " walks along no sequence"};
    if (graph.type(node.inputs[0]).dtype != DType::f32)
      return {false, 0, "a recurrent layer of " + std::string(tenon::name(graph.type(node.inputs[0]).dtype))};
    return {true, 1, "step after step"};
  }
  Bid joins(const Graph&, const Uses&, std::span<const ValueId>, ValueId) const override {
    return {false, 0, "nothing joins the steps of a sequence"};
  }

  Result<std::unique_ptr<Executable>> build_group(const BuildContext& context,
                                                  std::span<const ValueId> members) override {
    const Graph& g = context.graph;
    const ValueId v = members.back();
    const Node& node = g.node(v);
    if (node.op == ops::recurrent_gradient) return build_gradient(context, members);
    auto e = std::make_unique<RecurrentNode>();
    e->mode = attr_as<std::string>(node, "mode");
    e->reverse = attr_as<bool>(node, "reverse");
    e->gives_cell = attr_as<bool>(node, "cell");
    e->allocator = context.allocator;
    e->inputs = inputs_of(g, members);
    e->outputs = {v};
    const auto operand = [&](size_t i) { return inner::operand_in(context, *e, node, i); };
    e->x = operand(0);
    e->state = operand(1);
    e->gates.emplace(operand(2), operand(3), gates_of(e->mode));
    if (node.inputs.size() > 4) e->cell_state = operand(4);
    if (node.inputs.size() > 5) e->projection.emplace(operand(5));
    e->result = inner::result_in(context, *e, v);
    TENON_ASSIGN(e->cell, Cell::make(e->mode, context.allocator));
    e->kernels_compiled = e->cell->compiled();
    return std::unique_ptr<Executable>(std::move(e));
  }
  std::string describe() const override { return "recurrent layers, step after step"; }
};

}  // namespace
}  // namespace tenon::recurrent

namespace tenon {

Backend& recurrent_backend() { return immortal<recurrent::RecurrentBackend>(); }

}  // namespace tenon

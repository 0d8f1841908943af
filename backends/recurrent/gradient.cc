// See gradient.h.
#include "backends/recurrent/gradient.h"

#include <algorithm>
#include <atomic>

#include "backends/inner/dense_rows.h"
#include "backends/recurrent/cell_gradient.h"
#include "backends/recurrent/matrix.h"
#include "src/ir/group.h"
#include "src/ops/rules/recurrent.h"

namespace tenon::recurrent {
namespace {

struct GradientSlice : UnitRange {
  explicit GradientSlice(const UnitRange& range) : UnitRange(range) {}
  std::unique_ptr<Step> back, cell;  // cell: of an LSTM
  int64_t product = 0, rest = 0;     // bytes of scratch in front of its product, and of what its kernels need
};

class GradientStep final : public Step {
 public:
  const CellGradient* cell = nullptr;
  PlacedOperand y, dy, x, s;                   // with dense rows; x, s: not used in modes tanh and relu
  PlacedOperand state, cell_state, cell_grad;  // cell_state, cell_grad: of an LSTM
  PlacedOperand result;                        // the vector
  Columns weight;                              // product: gradients of gates -> of the state
  int64_t steps = 0, batch = 0, size = 0, gates = 0;
  bool reverse = false;
  int threads = 1;
  std::vector<GradientSlice> slices;

  // Scratch memory: bytes in front of each part.
  struct Parts {
    int64_t state = 0, cells = 0, carry = 0, weight = 0, result = 0, end = 0;
  } parts;

  void plan_scratch() {
    int64_t at = 0;
    const auto take = [&](int64_t bytes) {
      const int64_t start = at;
      at = align_up(at + bytes);
      return start;
    };
    const auto floats = [](int64_t count) { return count * static_cast<int64_t>(sizeof(float)); };
    parts.state = take(gates == 3 ? floats(of_state()) : 0);
    parts.cells = take(gates == 4 ? floats((steps + 1) * of_state()) : 0);
    parts.carry = take(gates > 1 ? floats(2 * of_state()) : 0);
    parts.weight = take(weight.needs_packing() ? floats(weight.floats()) : 0);
    parts.result = take(is_dense() ? 0 : floats(result.elements()));
    for (GradientSlice& slice : slices) {
      slice.product = take(floats(batch * slice.padded));
      slice.rest = take(std::max(slice.back->scratch_bytes(), slice.cell ? slice.cell->scratch_bytes() : 0));
    }
    parts.end = at;
  }
  int64_t scratch_bytes() const override { return parts.end; }
  int64_t bytes() const override {
    int64_t sum = static_cast<int64_t>(sizeof *this + slices.capacity() * sizeof(GradientSlice));
    for (const GradientSlice& slice : slices)
      sum += slice.back->bytes() + (slice.cell ? slice.cell->bytes() : 0);
    return sum;
  }
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override;

 private:
  // The addresses of a run, and of the step that is being computed.
  struct Walk {
    const GradientStep* step;
    char* scratch;
    Columns::Memory weight;
    const float *y = nullptr, *dy = nullptr, *x = nullptr, *s = nullptr;  // the sequences
    const float *state = nullptr, *later = nullptr;  // later: the gradients of the gates of the later step
    float *cells = nullptr, *carry = nullptr, *dx = nullptr, *ds = nullptr, *dh = nullptr;
    int64_t i = 0;  // the step in the order of the layer
    std::atomic<bool> failed{false};
  };
  int64_t of_state() const { return batch * size; }
  int64_t of_gates() const { return batch * gates * size; }
  int64_t place(int64_t i) const { return reverse ? steps - 1 - i : i; }  // of step i in the sequences
  bool is_dense() const { return result.strides[0] == 1; }
  // The gradient of a state or a cell that step i leaves to the step before it.
  float* carry_of(const Walk& w, int64_t i) const { return w.carry + i % 2 * of_state(); }
  float* multiply(const Walk& w, const GradientSlice& slice) const;
  CellGradient::At addresses(const Walk& w, int64_t i, int64_t unit) const;
  void step_back(Walk& w, const GradientSlice& slice) const;
  void walk_cells(Walk& w, const GradientSlice& slice) const;
  void finish(const Walk& w, const GradientSlice& slice) const;

  // Calls the function for each slice, in parallel.
  template <auto function>
  void each_slice(Walk& w, Parallel& parallel) const {
    const int count = static_cast<int>(slices.size());
    parallel.run(
        count, count,
        [](void* arg, int, int64_t begin, int64_t end) {
          auto& walk = *static_cast<Walk*>(arg);
          for (int64_t k = begin; k < end; ++k)
            (walk.step->*function)(walk, walk.step->slices[static_cast<size_t>(k)]);
        },
        &w);
  }
};

// The product of the later step, for the units of the slice; zeros behind the last step.
float* GradientStep::multiply(const Walk& w, const GradientSlice& slice) const {
  auto* product = reinterpret_cast<float*>(w.scratch + slice.product);
  if (!w.later) {
    std::fill_n(product, batch * slice.padded, 0.0f);
    return product;
  }
  for (int64_t block = slice.from; block < slice.to; ++block)
    weight.multiply(w.weight, w.later, gates * size, batch, block, 0,
                    product + (block - slice.from) * panel_width(), slice.padded);
  return product;
}

// Without the product.
CellGradient::At GradientStep::addresses(const Walk& w, int64_t i, int64_t unit) const {
  const int64_t t = place(i);
  CellGradient::At at{};
  at.size = size;
  at.dy = w.dy + t * dy.strides[0] + unit;
  at.dx = w.dx + t * of_gates() + unit;
  at.ds = w.ds + t * of_gates() + unit;
  if (gates == 1) {
    at.after = w.y + t * y.strides[0] + unit;
    return at;
  }
  at.x = w.x + t * x.strides[0] + unit;
  at.s = w.s + t * s.strides[0] + unit;
  at.carry = carry_of(w, i + 1) + unit;
  at.next = carry_of(w, i) + unit;
  if (gates == 3) {
    at.before = i > 0 ? w.y + place(i - 1) * y.strides[0] + unit : w.state + unit;
  } else {
    at.before = w.cells + i * of_state() + unit;
    at.after = at.before + of_state();
  }
  return at;
}

void GradientStep::step_back(Walk& w, const GradientSlice& slice) const {
  CellGradient::At at = addresses(w, w.i, slice.first);
  at.product = multiply(w, slice);
  if (!cell->run(*slice.back, at, w.scratch + slice.rest).ok()) w.failed = true;
  if (gates != 3) return;
  for (int64_t b = 0; b < batch; ++b)  // the gates r and z add x and s
    for (int64_t gate = 0; gate < 2; ++gate)
      std::copy_n(at.dx + (b * gates + gate) * size, slice.units, at.ds + (b * gates + gate) * size);
}

// Computes the cells of an LSTM again.
void GradientStep::walk_cells(Walk& w, const GradientSlice& slice) const {
  for (int64_t i = 0; i < steps; ++i) {
    const CellGradient::At at = addresses(w, i, slice.first);
    if (!cell->run_cell(*slice.cell, at, w.cells + (i + 1) * of_state() + slice.first, w.scratch + slice.rest)
             .ok())
      w.failed = true;
  }
}

// Writes the gradient of the state before the first step.
void GradientStep::finish(const Walk& w, const GradientSlice& slice) const {
  const float* product = multiply(w, slice);
  const float* carry = carry_of(w, 0);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t u = 0; u < slice.units; ++u) {
      const int64_t at = b * size + slice.first + u;
      w.dh[at] = product[b * slice.padded + u] + (gates == 3 ? carry[at] : 0);
    }
}

Status GradientStep::run(void* const* buffers, char* scratch, const RunOn& on) const {
  if (batch == 0 || size == 0) return {};
  const auto part = [&](int64_t at) { return reinterpret_cast<float*>(scratch + at); };
  Walk w{this, scratch, weight.in_run(buffers, part(parts.weight), threads, on.parallel)};
  w.y = y.of(buffers);
  w.dy = dy.of(buffers);
  w.x = x.of(buffers);
  w.s = s.of(buffers);
  w.cells = part(parts.cells);
  w.carry = part(parts.carry);
  w.dx = is_dense() ? result.of(buffers) : part(parts.result);
  w.ds = gates == 3 ? w.dx + steps * of_gates() : w.dx;
  w.dh = w.ds + steps * of_gates();
  if (gates > 1) std::fill_n(carry_of(w, steps), of_state(), 0.0f);
  if (gates == 3) {
    state.copy_to(part(parts.state), buffers);
    w.state = part(parts.state);
  }
  if (gates == 4) {
    cell_state.copy_to(w.cells, buffers);
    if (cell_grad.used()) cell_grad.copy_to(carry_of(w, steps), buffers);
    each_slice<&GradientStep::walk_cells>(w, on.parallel);
  }
  for (w.i = steps - 1; w.i >= 0; --w.i) {
    each_slice<&GradientStep::step_back>(w, on.parallel);
    w.later = w.ds + place(w.i) * of_gates();
  }
  each_slice<&GradientStep::finish>(w, on.parallel);
  if (gates == 4) std::copy_n(carry_of(w, 0), of_state(), w.dh + of_state());
  TENON_CHECK(!w.failed, "a kernel of a cell has failed");
  if (!is_dense())
    copy_strided(reinterpret_cast<const char*>(w.dx), {1}, reinterpret_cast<char*>(result.of(buffers)),
                 result.strides, result.shape, static_cast<int64_t>(sizeof(float)));
  return {};
}

class GradientNode final : public Executable {
 public:
  std::string mode;
  bool reverse = false;
  Operand y, dy, state, result;
  std::optional<Operand> x, s, cell_state, cell_grad;
  std::optional<Matrix> weight;
  std::unique_ptr<CellGradient> cell;
  Allocator allocator;

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    auto step = std::make_unique<GradientStep>();
    const auto placed = [&](const std::optional<Operand>& o) {
      return o ? PlacedOperand(*o, sizes) : PlacedOperand();
    };
    step->cell = cell.get();
    step->y = placed(y);
    step->dy = placed(dy);
    step->x = placed(x);
    step->s = placed(s);
    step->state = placed(state);
    step->cell_state = placed(cell_state);
    step->cell_grad = placed(cell_grad);
    step->result = placed(result);
    const std::vector<int64_t>& shape = step->y.shape;
    step->steps = shape[0];
    step->batch = shape[1];
    step->size = shape[2];
    step->gates = gates_of(mode);
    step->reverse = reverse;
    step->threads = sizes.threads;
    inner::DenseRows dense(inputs.size() + outputs.size());
    for (PlacedOperand* sequence : {&step->y, &step->dy, &step->x, &step->s})
      dense.require(*sequence, static_cast<int64_t>(sizeof(float)));
    // The kernels read rows of hidden states like rows of the first state.
    if (step->batch > 1 && step->y.strides[1] != step->size)
      dense.copy(step->y, static_cast<int64_t>(sizeof(float)));
    step->weight = weight->at(sizes, step->steps * step->batch, allocator);
    TENON_TRY(slice(*step, sizes.threads));
    step->plan_scratch();
    return std::move(dense).before(std::move(step));
  }
  bool may_fail() const override { return false; }
  std::string describe() const override {
    return "recurrent gradient " + mode + (reverse ? " from the last step" : "") +
           ", each step one parallel region\n" + cell->describe();
  }

 private:
  // Distributes the units over threads.
  Status slice(GradientStep& step, int threads) const {
    const int64_t products = step.batch * step.gates * step.size * step.size;
    for (const UnitRange& range : unit_ranges(step.size, products, threads)) {
      GradientSlice slice(range);
      const auto row = [](const PlacedOperand& o) { return o.used() ? o.strides[1] : 0; };
      const CellGradient::Shape shape{step.batch,  range.units,  step.size,   row(step.x),
                                      row(step.s), row(step.dy), range.padded};
      TENON_ASSIGN(slice.back, cell->prepare(shape));
      if (step.gates == 4) {
        TENON_ASSIGN(slice.cell, cell->prepare_cell(shape));
      }
      step.slices.push_back(std::move(slice));
    }
    return {};
  }
};

// A matrix with its axes exchanged.
Operand transposed(Operand matrix) {
  std::swap(matrix.shape[0], matrix.shape[1]);
  std::swap(matrix.strides[0], matrix.strides[1]);
  return matrix;
}

}  // namespace

Result<std::unique_ptr<Executable>> build_gradient(const BuildContext& context,
                                                   std::span<const ValueId> members) {
  const Graph& g = context.graph;
  const ValueId v = members.back();
  const Node& node = g.node(v);
  auto e = std::make_unique<GradientNode>();
  e->mode = attr_as<std::string>(node, "mode");
  e->reverse = attr_as<bool>(node, "reverse");
  e->allocator = context.allocator;
  e->inputs = inputs_of(g, members);
  e->outputs = {v};
  const auto operand = [&](size_t i) { return inner::operand_in(context, *e, node, i); };
  e->y = operand(0);
  e->dy = operand(1);
  e->state = operand(2);
  e->weight.emplace(transposed(operand(3)));
  std::optional<Operand>* const others[] = {&e->x, &e->s, &e->cell_state, &e->cell_grad};
  for (size_t i = 4; i < node.inputs.size(); ++i) *others[i - 4] = operand(i);
  e->result = inner::result_in(context, *e, v);
  TENON_ASSIGN(e->cell, CellGradient::make(e->mode, context.allocator));
  e->kernels_compiled = e->cell->compiled();
  return std::unique_ptr<Executable>(std::move(e));
}

}  // namespace tenon::recurrent

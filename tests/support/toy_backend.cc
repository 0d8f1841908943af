// See toy_backend.h. A group is a product y = a b and a chain of maps behind it. A step computes y row by row; each thread sums a row in
// doubles, in its part of the scratch memory.
#include "tests/support/toy_backend.h"

#include <algorithm>

#include "src/base/threads/immortal.h"
#include "src/ir/group.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/operand.h"

namespace tenon {
namespace {

using Scalar1 = double (*)(const double*);  // the column `eval` of a row with one operand

// A matrix in memory, at the sizes of a plan; strides in elements.
struct Matrix {
  size_t buffer = 0;
  int64_t offset = 0, row_stride = 0, column_stride = 0;
};

// ---- run ----

class ToyStep final : public Step {
 public:
  Matrix a, b, y;
  int64_t rows = 0, depth = 0, columns = 0;
  int threads = 1;
  std::vector<Scalar1> maps;

  int64_t scratch_bytes() const override { return threads * columns * static_cast<int64_t>(sizeof(double)); }
  int64_t bytes() const override {
    return static_cast<int64_t>(sizeof *this + maps.size() * sizeof(Scalar1));
  }
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override {
    Call call{this, buffers, reinterpret_cast<double*>(scratch)};
    on.parallel.run(rows, threads, run_rows, &call);
    return {};
  }

 private:
  struct Call {
    const ToyStep* step;
    void* const* buffers;
    double* sums;  // one row per thread
  };
  static void run_rows(void* arg, int thread, int64_t begin, int64_t end) {
    const Call& call = *static_cast<const Call*>(arg);
    const ToyStep& s = *call.step;
    double* sums = call.sums + thread * s.columns;
    const auto start = [&](const Matrix& m) {
      return static_cast<float*>(call.buffers[m.buffer]) + m.offset;
    };
    const float *a = start(s.a), *b = start(s.b);
    float* y = start(s.y);
    for (int64_t i = begin; i < end; ++i) {
      std::fill_n(sums, s.columns, 0.0);
      for (int64_t k = 0; k < s.depth; ++k) {
        const double factor = a[i * s.a.row_stride + k * s.a.column_stride];
        for (int64_t j = 0; j < s.columns; ++j)
          sums[j] += factor * b[k * s.b.row_stride + j * s.b.column_stride];
      }
      for (int64_t j = 0; j < s.columns; ++j) {
        auto value = static_cast<float>(sums[j]);
        for (const Scalar1 map : s.maps) {
          const double operand = value;
          value = static_cast<float>(map(&operand));
        }
        y[i * s.y.row_stride + j * s.y.column_stride] = value;
      }
    }
  }
};

// ---- prepare ----

class ToyGroup final : public Executable {
 public:
  Operand a, b, y;
  std::vector<Scalar1> maps;
  std::string text;

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    auto step = std::make_unique<ToyStep>();
    step->a = matrix(a, sizes);
    step->b = matrix(b, sizes);
    step->y = matrix(y, sizes);
    step->rows = sizes.eval(a.shape[0]);
    step->depth = sizes.eval(a.shape[1]);
    step->columns = sizes.eval(b.shape[1]);
    step->threads = static_cast<int>(std::clamp<int64_t>(step->rows, 1, sizes.threads));
    step->maps = maps;
    return std::unique_ptr<Step>(std::move(step));
  }
  bool may_fail() const override { return false; }
  std::string describe() const override { return text; }

 private:
  static Matrix matrix(const Operand& o, const Sizes& sizes) {
    return {static_cast<size_t>(o.buffer), sizes.eval(o.offset), sizes.eval(o.strides[0]),
            sizes.eval(o.strides[1])};
  }
};

// ---- bid and build ----

class ToyBackend final : public Backend {
 public:
  std::string_view name() const override { return "toy"; }

  Bid bid(const Graph& graph, ValueId v) const override {
    const Node& node = graph.node(v);
    if (node.op != ops::matmul) return {false, 0, "takes products of matrices only"};
    if (node.type.dtype != DType::f32) return {false, 0, "computes in f32 only"};
    for (ValueId i : node.inputs)
      if (graph.type(i).rank() != 2) return {false, 0, "takes operands of two axes only"};
    return {true, 0.25, "row by row"};
  }

  Bid joins(const Graph& graph, const Uses&, std::span<const ValueId>, ValueId v) const override {
    const Op& row = op(graph.node(v).op);
    if (row.kind != Kind::map || row.arity != 1 || !row.eval || row.eval_f32 || !row.attr_specs.empty())
      return {false, 0, "computes no " + std::string(row.name) + " with a product"};
    if (graph.type(v).dtype != DType::f32) return {false, 0, "writes f32 only"};
    return {true, 0, "computed as each element of the product is written"};
  }

  Result<std::unique_ptr<Executable>> build_group(const BuildContext& context,
                                                  std::span<const ValueId> members) override {
    const Graph& g = context.graph;
    const ValueId product = members.front(), result = members.back();
    auto group = std::make_unique<ToyGroup>();
    group->inputs = inputs_of(g, members);
    group->outputs = {result};
    const auto operand = [&](ValueId v) {
      Operand o = operand_of(g, v, [&](ValueId w) { return context.strides_of(w); });
      o.buffer = group->position_of(o.base);
      return o;
    };
    group->a = operand(g.node(product).inputs[0]);
    group->b = operand(g.node(product).inputs[1]);
    group->y = stored_operand(g, result);
    group->y.strides = context.layouts[result].strides;
    group->y.buffer = static_cast<int>(group->inputs.size());
    group->text = "product of matrices";
    for (ValueId v : members.subspan(1)) {
      const Op& row = op(g.node(v).op);
      group->maps.push_back(row.eval);
      group->text += ", " + std::string(row.name);
    }
    return std::unique_ptr<Executable>(std::move(group));
  }
  std::string describe() const override { return "an example"; }
};

}  // namespace

Backend& toy_backend() { return immortal<ToyBackend>(); }

}  // namespace tenon

// Problems of cuBLASLt for products whose operands and epilogues have all memory layouts (tests/support/strided.h). Computes each
// problem as the library's documentation defines it, over memory that is NaN beside the operands, and compares with the evaluator.
#include <algorithm>
#include <cmath>

#include "backends/nvidia/cublaslt/problem.h"
#include "src/ops/rows/names.h"
#include "tests/support/strided_cases.h"

namespace tenon::cublaslt {
namespace {

// The values of the graph in memory: inputs with the strides of their bindings, others dense.
struct Memory {
  const Graph& graph;
  const std::vector<HostTensor>& inputs;
  std::vector<Tensor> bound;
  std::vector<ValueId> bases;
  std::vector<HostTensor> stored;  // the values that are no inputs
  std::vector<const float*> at;

  HostTensor value(ValueId v) const {
    Graph g = graph;
    g.outputs.assign(1, {});
    g.outputs[0].value = v;
    auto values = evaluate(g, inputs);
    TENON_CHECK(values.ok(), values.status().message());
    return (*values)[0];
  }
  int buffer(ValueId base) {
    for (size_t i = 0; i < bases.size(); ++i)
      if (bases[i] == base) return static_cast<int>(i);
    bases.push_back(base);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (graph.inputs[i].value == base) {
        at.push_back(static_cast<const float*>(bound[i].data));
        return static_cast<int>(bases.size() - 1);
      }
    stored.push_back(value(base));
    at.push_back(reinterpret_cast<const float*>(stored.back().bytes.data()));
    return static_cast<int>(bases.size() - 1);
  }
};

double activated(Activation a, double x) {
  if (a == Activation::relu) return x < 0 ? 0 : x;
  if (a == Activation::gelu)
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x;
}

// D = activation(alpha * op(A) * op(B) + beta * C + bias) with column-major matrices.
void compute(const BatchedCall& w, const Memory& memory, char* result) {
  const Problem& p = w.problem;
  const Matrix* matrices[] = {&p.a, &p.b, &p.c, &p.d};
  std::vector<int64_t> index(w.outer.size());
  const int64_t terms = p.a.transposed ? p.a.rows : p.a.columns;
  const auto element = [](const Matrix& m, int64_t i, int64_t j) {
    return m.transposed ? j + i * m.ld : i + j * m.ld;
  };
  for (int64_t call = 0; call < w.calls(); ++call) {
    const char* from[BatchedCall::kMatrices];
    for (int m = 0; m < BatchedCall::kMatrices; ++m) {
      const auto [buffer, offset] = w.places[static_cast<size_t>(m)];
      const bool own = buffer == static_cast<int>(memory.bases.size());
      from[m] =
          (own ? result : reinterpret_cast<const char*>(memory.at[static_cast<size_t>(buffer)])) + offset;
      for (size_t axis = 0; axis < index.size(); ++axis) from[m] += index[axis] * w.outer[axis].bytes[m];
    }
    for (int64_t n = 0; n < p.batch; ++n) {
      const float* x[BatchedCall::kMatrices];
      for (int m = 0; m < BatchedCall::kMatrices; ++m)
        x[m] = reinterpret_cast<const float*>(from[m]) + n * matrices[m]->batch_stride;
      for (int64_t i = 0; i < p.d.rows; ++i)
        for (int64_t j = 0; j < p.d.columns; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < terms; ++k)
            sum += static_cast<double>(x[0][element(p.a, i, k)]) * x[1][element(p.b, k, j)];
          sum *= w.alpha;
          if (w.beta != 0) sum += w.beta * x[2][element(p.c, i, j)];
          if (p.bias) sum += memory.at[static_cast<size_t>(w.places[4].buffer)][w.places[4].offset / 4 + i];
          const_cast<float*>(x[3])[element(p.d, i, j)] = static_cast<float>(activated(p.activation, sum));
        }
    }
    for (size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < w.outer[axis].count) break;
      index[axis] = 0;
    }
  }
}

class CublasLtStrided : public testing::TestWithParam<const char*> {};

TEST_P(CublasLtStrided, Operands) {
  int computed = 0, epilogues = 0;
  for (uint32_t seed = 0; seed < 400 && !HasFailure(); ++seed) {
    const StridedCase c = StridedCases(seed, seed % 3 == 2).make(GetParam());
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + c.text);
    auto graph = parse_graph(c.text);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const std::vector<HostTensor> inputs = c.inputs.dense();
    std::vector<std::vector<int64_t>> shapes;
    for (const HostTensor& t : inputs) shapes.push_back(t.shape);
    auto symbols = solve_symbols(*graph, shapes, [](size_t) { return 0; });
    if (!symbols.ok()) continue;  // a symbol that is only the size of broadcast axes
    bool known = true;
    for (int64_t s : *symbols) known = known && s > 0;
    if (!known) continue;
    const StridesOf strides_of = [&](ValueId v) { return bound_strides(*graph, v); };
    // The group: the product, and the nodes behind it as far as the library can express them.
    std::vector<ValueId> members;
    for (ValueId v = 0; v < graph->nodes.size(); ++v) {
      const Node& node = graph->node(v);
      if (members.empty()
              ? !is_product(node)
              : std::find(node.inputs.begin(), node.inputs.end(), members.back()) == node.inputs.end())
        continue;
      members.push_back(v);
      if (make_spec(*graph, members, strides_of).ok()) continue;
      members.pop_back();
      break;
    }
    if (members.empty()) continue;
    auto spec = make_spec(*graph, members, strides_of);
    ASSERT_TRUE(spec.ok()) << spec.status().message();
    std::vector<std::unique_ptr<char[]>> blocks;
    Memory memory{*graph, inputs, {}, {}, {}, {}};
    memory.stored.reserve(graph->nodes.size());
    memory.bound = c.inputs.place([&](int64_t bytes) {
      blocks.push_back(std::make_unique<char[]>(static_cast<size_t>(bytes)));
      return blocks.back().get();
    });
    for (Operand* o :
         {&spec->a, &spec->b, spec->added ? &*spec->added : nullptr, spec->bias ? &*spec->bias : nullptr})
      if (o) o->buffer = memory.buffer(o->base);
    spec->result.buffer = static_cast<int>(memory.bases.size());
    auto work = at_sizes(*spec, Sizes{graph->dims.get(), *symbols});
    if (!work.ok()) {
      EXPECT_EQ(work.status().code(), Code::unsupported) << work.status().message();
      continue;
    }
    const HostTensor want = memory.value(members.back());
    Dims lies = dense_strides(*graph->dims, graph->type(members.back()).shape);
    if (const auto own = strides_of(members.back())) lies = *own;
    std::vector<int64_t> strides;
    int64_t last = 0;
    for (size_t i = 0; i < lies.size(); ++i) {
      strides.push_back(*graph->dims->eval(lies[i], *symbols));
      last += strides[i] * (want.shape[i] - 1);
    }
    std::vector<float> result(static_cast<size_t>(last) + 1, NAN);
    compute(*work, memory, reinterpret_cast<char*>(result.data()));
    int64_t i = 0;
    walk(want.shape, {strides}, [&](const auto& at) {
      const double w = want.number(i++), x = result[static_cast<size_t>(at[0])];
      EXPECT_LE(std::abs(x - w), 1e-4 * std::max(1.0, std::abs(w))) << "element " << i - 1;
      result[static_cast<size_t>(at[0])] = NAN;
    });
    for (float x : result) EXPECT_TRUE(std::isnan(x)) << "written beside the elements";
    ++computed;
    epilogues += spec->added || spec->bias;
  }
  EXPECT_GE(computed, 150);
  EXPECT_GE(epilogues, 15);
}

INSTANTIATE_TEST_SUITE_P(Roots, CublasLtStrided, testing::Values("matmul", "batch", "linear", "vector"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tenon::cublaslt

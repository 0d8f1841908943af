// Programs under a budget of bytes: the same results, fewer bytes of intermediates, and an explanation. The results are
// equal bit for bit here. They need not be where a part of a step that sums runs again (docs/gradients.md): its kernel
// may sum in another order.
#include <map>
#include <set>

#include "src/passes/gradient.h"
#include "tests/support/graph_gen.h"
#include "tests/support/run_help.h"
#include "tests/support/sanitized.h"

namespace tenon {
namespace {

// The gradients of a chain of layers tanh(x w), by x and each w; one layer has 16 KiB.
Graph chain(int layers, const std::string& rows = "64") {
  std::string text = "graph @chain(%x: f32[" + rows + ",64]", last = "%x";
  for (int i = 0; i < layers; ++i) text += ", %w" + std::to_string(i) + ": f32[64,64]";
  text += ") {\n";
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    text += "%m" + n + " = matmul(" + last + ", %w" + n + ")\n%t" + n + " = tanh(%m" + n + ")\n";
    last = "%t" + n;
  }
  auto graph = parse_graph(text + "return " + last + "\n}");
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  auto made = gradient(*graph);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *made;
}

struct Ran {
  std::vector<HostTensor> outputs;
  int64_t bytes = 0;  // of intermediates
  std::string explain;
};

Ran ran(const Graph& graph, std::vector<HostTensor> inputs, int64_t budget,
        const std::vector<HostTensor>& like) {
  ProgramOptions options;
  options.budget = budget;
  auto program = Program::make(graph, options, {});
  EXPECT_TRUE(program.ok()) << program.status().message();
  if (!program.ok()) return {};
  Ran out{blank_like(like), 0, {}};
  const Status status = run(**program, inputs, out.outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  out.explain = (*program)->explain(false);
  const std::string words = "intermediates ";
  out.bytes = std::stoll(out.explain.substr(out.explain.rfind(words) + words.size()));
  return out;
}

std::vector<HostTensor> inputs_of(const Graph& graph) {
  std::vector<HostTensor> inputs = random_inputs(graph);
  for (HostTensor& t : inputs)
    for (int64_t i = 0; i < t.count() && is_float(t.dtype); ++i) t.set_number(i, t.number(i) / 8);
  return inputs;
}

// The bytes of intermediates without a budget and at each budget; the results are the same.
std::vector<int64_t> bytes_of(const Graph& graph, std::vector<int64_t> budgets, std::string* last = nullptr) {
  const std::vector<HostTensor> inputs = inputs_of(graph);
  std::vector<HostTensor> like;
  for (const OutputBinding& o : graph.outputs) {
    std::vector<int64_t> shape;
    for (Dim d : graph.type(o.value).shape) shape.push_back(d.is_const() ? d.value() : 3);
    like.emplace_back(graph.type(o.value).dtype, shape);
  }
  const Ran plain = ran(graph, inputs, 0, like);
  EXPECT_EQ(plain.explain.find("runs again"), std::string::npos);
  std::vector<int64_t> out = {plain.bytes};
  for (int64_t budget : budgets) {
    const Ran limited = ran(graph, inputs, budget, like);
    for (size_t o = 0; o < plain.outputs.size() && o < limited.outputs.size(); ++o)
      EXPECT_EQ(limited.outputs[o].bytes, plain.outputs[o].bytes) << "budget " << budget << "\n"
                                                                  << limited.explain;
    out.push_back(limited.bytes);
    if (last) *last = limited.explain;
  }
  return out;
}

TEST(Recompute, MeetsABudget) {
  const int64_t layer = 64 * 64 * 4;
  std::string explain;
  const auto bytes = bytes_of(chain(32), {100 * layer, 24 * layer, 16 * layer, 12 * layer}, &explain);
  EXPECT_EQ(bytes[1], bytes[0]);
  EXPECT_GT(bytes[0], 31 * layer);
  EXPECT_LE(bytes[2], 24 * layer);
  EXPECT_LE(bytes[3], 16 * layer);
  EXPECT_LE(bytes[4], 12 * layer);
  EXPECT_NE(explain.find("runs again because keeping its result takes 16384 bytes"), std::string::npos)
      << explain;
  EXPECT_NE(explain.find("recomputed: "), std::string::npos) << explain;
}

// Four times as many layers need about twice as many bytes, and no layer runs more than twice before the turn.
TEST(Recompute, GrowsAsTheSquareRootOfTheDepth) {
  int64_t before = 0;
  for (int layers : kSanitized ? std::vector{12, 48} : std::vector{12, 48, 192}) {
    std::string explain;
    const int64_t bytes = bytes_of(chain(layers), {1}, &explain)[1];
    if (before > 0) {
      EXPECT_LE(static_cast<double>(bytes), 2.4 * static_cast<double>(before)) << layers;
    }
    before = bytes;
    size_t again = 0;
    for (size_t at = 0; (at = explain.find("runs again", at)) != explain.npos; ++at) ++again;
    EXPECT_LE(again, static_cast<size_t>(layers));
  }
}

// gelu of a product: gelu is cheap, the product is not.
TEST(Recompute, DropsWhatIsCheapFirst) {
  auto graph = parse_graph(R"(graph @f(%x: f32[64,64], %w: f32[64,64]) {
    %a = matmul(%x, %w)
    %b = sin(%a)
    %c = exp(%b)
    %d = matmul(%c, %w)
    %e = sin(%d)
    %f = exp(%e)
    %g = matmul(%f, %w)
    %h = sin(%g)
    %i = exp(%h)
    %j = matmul(%i, %w)
    return %j
  })");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto made = gradient(*graph);
  ASSERT_TRUE(made.ok()) << made.status().message();
  std::string explain;
  const auto bytes = bytes_of(*made, {5 * 64 * 64 * 4}, &explain);
  EXPECT_LT(bytes[1], bytes[0]) << explain;
  std::string step;
  for (size_t at = 0, next; at < explain.size(); at = next + 1) {
    next = std::min(explain.find('\n', at), explain.size());
    const std::string line = explain.substr(at, next - at);
    if (line.starts_with("step ")) step = line;
    if (line.find("runs again") != line.npos) {
      EXPECT_EQ(step.find("matmul"), std::string::npos) << explain;
    }
  }
}

TEST(Recompute, NeedsUpperBoundsOfSizes) {
  const Graph open = chain(8, "N");
  ProgramOptions options;
  options.budget = 1;
  const auto program = Program::make(open, options, {});
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), Code::unsupported);
  EXPECT_NE(program.status().message().find("f32[N,64]"), std::string::npos) << program.status().message();
  Graph bounded = chain(8, "N");
  bounded.dims->set_range(bounded.dims->symbol("N"), 0, 64);
  const auto bytes = bytes_of(bounded, {1});
  EXPECT_LT(bytes[1], bytes[0]);
}

// A network with values of several uses, statistics, splits and gathers.
TEST(Recompute, KeepsTheResultsOfANetwork) {
  std::string text = "graph @n(%x: f32[2,8,9,9], %w: f32[8,8,3,3], %i: i64[2]) {\n", last = "%x";
  for (int i = 0; i < (kSanitized ? 3 : 6); ++i) {
    const std::string n = std::to_string(i);
    text += "%c" + n + " = convolution(" + last +
            ", %w){strides=[1,1], padding=[1,1], padding_high=[1,1], dilations=[1,1]}\n%m" + n +
            " = mean(%c" + n + "){axes=[0,2,3]}\n%v" + n + " = var(%c" + n +
            "){axes=[0,2,3], correction=0.0}\n%n" + n + " = batch_norm(%c" + n + ", %m" + n + ", %v" + n +
            "){eps=0.001}\n%r" + n + " = relu(%n" + n + ")\n%s" + n + " = add(%r" + n + ", " + last + ")\n";
    last = "%s" + n;
  }
  text += "%p = max_pool(" + last +
          "){kernel=[2,2], strides=[2,2], padding=[0,0], padding_high=[0,0]}\n"
          "%g = gather(%p, %i){axis=1}\n%l = softmax(%g){axis=1}\nreturn %l\n}";
  auto graph = parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto made = gradient(*graph, {.keep_outputs = true});
  ASSERT_TRUE(made.ok()) << made.status().message();
  const auto plain = bytes_of(*made, {});
  const auto bytes = bytes_of(*made, {plain[0] * 3 / 4, plain[0] / 2, plain[0] / 4, 1});
  EXPECT_LT(bytes[2], bytes[0]);
  EXPECT_LE(bytes[4], bytes[2]);
}

// Random graphs, and their gradients, under the smallest budget.
TEST(Recompute, RandomGraphs) {
  int again = 0;
  for (uint64_t seed = 1; seed <= rounds(500); ++seed) {
    RandomGraph r = GraphGen(seed).make();
    DimTable& dims = *r.graph.dims;
    for (int i = 0; i < dims.symbol_count(); ++i)
      if (dims.range(dims.symbol_at(i)).second > 64) dims.set_range(dims.symbol_at(i), 0, 64);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + print(r.graph));
    const auto made = gradient(r.graph, {.keep_outputs = true});
    for (const Graph* graph : std::initializer_list<const Graph*>{&r.graph, made.ok() ? &*made : nullptr}) {
      if (!graph) continue;
      auto expected = evaluate(*graph, r.inputs);
      if (!expected.ok()) continue;
      ProgramOptions options;
      options.backends = {"reference"};  // compiles nothing
      options.without = {"fuse"};        // more intermediates
      auto plain = Program::make(*graph, options, {});
      options.budget = 1;
      auto limited = Program::make(*graph, options, {});
      if (!plain.ok() || !limited.ok()) continue;
      std::vector<HostTensor> want = blank_like(*expected), got = blank_like(*expected);
      if (!run(**plain, r.inputs, want).ok()) continue;
      const Status status = run(**limited, r.inputs, got);
      ASSERT_TRUE(status.ok()) << status.message();
      for (size_t o = 0; o < got.size(); ++o)
        ASSERT_EQ(got[o].bytes, want[o].bytes) << "output " << o << "\n" << (*limited)->explain(false);
      again += (*limited)->explain(false).find("runs again") != std::string::npos;
    }
  }
  EXPECT_GT(again, kSanitized ? 0 : 10);
}

}  // namespace
}  // namespace tenon

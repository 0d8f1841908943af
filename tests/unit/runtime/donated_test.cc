// Intermediates in the memory of donated inputs and of outputs: when a plan uses it, and what a host may rely on.
#include <gtest/gtest.h>

#include <random>

#include "src/ir/verify.h"
#include "tests/support/graph_check.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

// The declared sizes of a value.
std::vector<int64_t> declared_shape(const Graph& graph, ValueId v) {
  std::vector<int64_t> shape;
  for (Dim d : graph.type(v).shape) shape.push_back(d.value());
  return shape;
}

struct Ran {
  bool uses_donated;
  int64_t workspace;
};

// Compiles the text, runs it on random inputs of the declared sizes and expects the results of the evaluator.
Ran ran(const std::string& text, int threads = 1) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_TRUE(verify(*graph).ok()) << verify(*graph).message();
  std::vector<HostTensor> inputs;
  for (const InputBinding& in : graph->inputs) {
    inputs.push_back(random_tensor(graph->type(in.value).dtype, declared_shape(*graph, in.value),
                                   static_cast<uint32_t>(inputs.size())));
  }
  ProgramOptions options;
  options.threads = threads;
  const CheckResult result = check_program(*graph, inputs, {}, options);
  EXPECT_EQ(result.kind, CheckResult::right) << text << result.message;
  return {result.uses_donated, result.workspace};
}

// A host that gives memory to outputs late, and fills the memory of a donated input with other bytes when it gets it back.
struct Spoiling final : Plan::Host {
  std::vector<HostTensor>& inputs;
  std::vector<HostTensor>& outputs;
  std::vector<int> allocated, released;
  Spoiling(std::vector<HostTensor>& in, std::vector<HostTensor>& out) : inputs(in), outputs(out) {}
  void* allocate(int output) override {
    allocated.push_back(output);
    return outputs[static_cast<size_t>(output)].bytes.data();
  }
  void release(int input) override {
    released.push_back(input);
    std::ranges::fill(inputs[static_cast<size_t>(input)].bytes, std::byte{0xFF});  // NaN
  }
};

// Runs the text with and without such a host and expects the same bytes.
void expect_same_with_host(const std::string& text, int threads) {
  auto graph = parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto program = program_of(text, threads);
  std::vector<HostTensor> inputs, want, got;
  std::vector<int> donated;
  for (size_t i = 0; i < graph->inputs.size(); ++i) {
    inputs.push_back(random_tensor(DType::f32, {24, 24}, static_cast<uint32_t>(i)));
    if (graph->inputs[i].donated) donated.push_back(static_cast<int>(i));
  }
  for (size_t o = 0; o < graph->outputs.size(); ++o)
    want.emplace_back(DType::f32, std::vector<int64_t>{24, 24});
  got = blank_like(want);
  std::vector<HostTensor> given = inputs;
  ASSERT_TRUE(run(*program, given, want).ok());
  given = inputs;
  Spoiling host(given, got);
  std::vector<Tensor> in, out;
  for (HostTensor& t : given) in.push_back(tensor_of(t));
  for (HostTensor& t : got) out.push_back(tensor_of(t)), out.back().data = nullptr;
  const Status status = program->run(in, out, nullptr, &host);
  ASSERT_TRUE(status.ok()) << status.message();
  std::ranges::sort(host.released);
  EXPECT_EQ(host.released, donated) << text;
  std::ranges::sort(host.allocated);
  EXPECT_EQ(std::ranges::adjacent_find(host.allocated), host.allocated.end()) << text;
  EXPECT_EQ(host.allocated.size(), got.size()) << text;
  for (size_t o = 0; o < got.size(); ++o) EXPECT_EQ(got[o].bytes, want[o].bytes) << text;
}

// One step writes rows, of which there are none, and sums of their columns.
TEST(Donated, OutputsWithoutElementsGetNoMemory) {
  const auto program = program_of(R"(graph @f(%x: f32[0,64], %d: f32[0,64] donated) {
    %s = sum(%x){axes=[1], keepdims=true}
    %y = mul(%d, %s)
    %v = sum(%y){axes=[0]}
    return %y, %v
  })");
  ASSERT_EQ(program->stats().steps, 1);
  std::vector<HostTensor> inputs(2, HostTensor(DType::f32, {0, 64}));
  std::vector<HostTensor> outputs{HostTensor(DType::f32, {0, 64}), HostTensor(DType::f32, {64})};
  Spoiling host(inputs, outputs);
  std::vector<Tensor> in{tensor_of(inputs[0]), tensor_of(inputs[1])},
      out{tensor_of(outputs[0]), tensor_of(outputs[1])};
  for (Tensor& t : out) t.data = nullptr;
  const Status status = program->run(in, out, nullptr, &host);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(host.allocated, std::vector<int>{1});
}

// %a is read first, so its memory may hold %r, which two products keep alive.
std::string chain(const std::string& a, const std::string& last = "%q") {
  return "graph @f(%a: f32[64,64]" + a + R"(, %w: f32[64,64]) {
    %p = matmul(%a, %w)
    %q = matmul(%p, %w)
    %r = matmul(%q, %w)
    %s = matmul(%r, )" +
         last + R"()
    return %s
  })";
}

TEST(Donated, HoldsIntermediates) {
  const Ran kept = ran(chain("")), given = ran(chain(" donated"));
  EXPECT_FALSE(kept.uses_donated);
  EXPECT_TRUE(given.uses_donated);
  EXPECT_LE(given.workspace, kept.workspace - 64 * 64 * 4);
}

TEST(Donated, IsNotUsedWhileAStepReadsIt) { EXPECT_FALSE(ran(chain(" donated", "%a")).uses_donated); }

TEST(Donated, ThatIsReturnedKeepsItsValues) {
  ran(R"(graph @f(%a: f32[64,64] donated, %w: f32[64,64]) {
    %p = matmul(%a, %w)
    %q = matmul(%p, %w)
    %r = matmul(%q, %w)
    return %r, %a
  })");
}

// Graphs of products, which keep their results in memory, and of small nodes between them.
TEST(Donated, RandomGraphs) {
  std::mt19937 random(3);
  const auto below = [&](size_t n) { return random() % n; };
  int uses = 0;
  for (int round = 0; round < 60; ++round) {
    const size_t inputs = 2 + below(4), nodes = 4 + below(12);
    std::string text = "graph @f(";
    for (size_t i = 0; i < inputs; ++i)
      text += (i ? ", %v" : "%v") + std::to_string(i) + ": f32[24,24]" + (below(3) ? " donated" : "");
    text += ") {\n  %s = full{value=0.2, shape=[], dtype=f32}\n";
    for (size_t n = inputs; n < inputs + nodes; ++n) {
      // Mostly late values, so that early ones die.
      const auto any = [&] { return "%v" + std::to_string(n - 1 - std::min(below(n), below(n))); };
      const std::string p = "%p" + std::to_string(n), y = "  %v" + std::to_string(n) + " = ";
      switch (below(6)) {
        case 0: text += y + "softmax(" + any() + "){axis=-1}\n"; break;
        case 1: text += y + "add(" + any() + ", " + any() + ")\n"; break;
        case 2: text += y + "transpose(" + any() + "){perm=[1,0]}\n"; break;
        default:
          text += "  " + p + " = matmul(" + any() + ", " + any() + ")\n" + y + "mul(" + p + ", %s)\n";
          break;
      }
    }
    text += "  return %v" + std::to_string(inputs + nodes - 1);
    if (below(3) == 0) text += ", %v" + std::to_string(below(inputs + nodes - 1));
    text += "\n}";
    uses += ran(text, 1 + round % 2).uses_donated;
    expect_same_with_host(text, 1 + round % 2);
    if (HasFailure()) break;
  }
  EXPECT_GE(uses, 20);
}

TEST(Donated, MemoryOfOtherTensorsBetweenRowsIsLeftAlone) {
  const std::string text = chain(" strides=[128,1] donated");
  const auto program = program_of(text);
  HostTensor wide = random_tensor(DType::f32, {64, 128}, 1), w = random_tensor(DType::f32, {64, 64}, 2),
             out(DType::f32, {64, 64});
  const HostTensor before = wide;
  const std::vector<int64_t> shape{64, 64}, strides{128, 1};
  const std::vector<Tensor> in{{wide.bytes.data(), DType::f32, shape, strides}, tensor_of(w)},
      outputs{tensor_of(out)};
  ASSERT_TRUE(program->run(in, outputs).ok());
  EXPECT_EQ(wide.bytes, before.bytes);
}

// A host may compute the outputs itself after a run that fails.
TEST(Donated, StaysAsItWasIfTheRunFails) {
  const char* text = R"(graph @f(%a: f32[64,64] donated, %w: f32[64,64], %i: i64[64]) {
    %p = matmul(%a, %w)
    %q = matmul(%p, %w)
    %r = matmul(%q, %w)
    %x = matmul(%r, %w)
    %s = gather(%x, %i){axis=0}
    %t = matmul(%s, %w)
    %u = matmul(%t, %s)
    return %u
  })";
  const auto program = program_of(text);
  std::vector<HostTensor> inputs{random_tensor(DType::f32, {64, 64}, 1),
                                 random_tensor(DType::f32, {64, 64}, 2), HostTensor(DType::i64, {64})};
  inputs[2].set(63, {0, 64});
  const HostTensor before = inputs[0];
  std::vector<HostTensor> outputs{HostTensor(DType::f32, {64, 64})};
  EXPECT_EQ(run(*program, inputs, outputs).code(), Code::invalid);
  EXPECT_EQ(inputs[0].bytes, before.bytes);
}

// How many donated inputs the host has back when the run asks for memory for its last output.
size_t released_before_last(const std::string& text) {
  auto graph = parse_graph(text);
  TENON_CHECK(graph.ok(), graph.status().message());
  const auto program = program_of(text);
  std::vector<HostTensor> inputs, outputs;
  for (const InputBinding& in : graph->inputs) {
    const DType dtype = graph->type(in.value).dtype;
    const std::vector<int64_t> shape = declared_shape(*graph, in.value);
    inputs.push_back(is_float(dtype) ? random_tensor(dtype, shape, 1) : HostTensor(dtype, shape));
  }
  for (const OutputBinding& o : graph->outputs)
    outputs.emplace_back(graph->type(o.value).dtype, declared_shape(*graph, o.value));
  struct Watching final : Plan::Host {
    std::vector<HostTensor>& outputs;
    size_t released = 0, before_last = 0;
    explicit Watching(std::vector<HostTensor>& out) : outputs(out) {}
    void* allocate(int output) override {
      before_last = released;
      return outputs[static_cast<size_t>(output)].bytes.data();
    }
    void release(int) override { ++released; }
  } host(outputs);
  std::vector<Tensor> in, out;
  for (HostTensor& t : inputs) in.push_back(tensor_of(t));
  for (HostTensor& t : outputs) out.push_back(tensor_of(t)), out.back().data = nullptr;
  const Status status = program->run(in, out, nullptr, &host);
  EXPECT_TRUE(status.ok()) << status.message();
  return host.before_last;
}

// The backward pass of an embedding and a product. Its indices could be out of range. %dx does not fit into %a, or is a small part of it.
TEST(Donated, GoesBackBeforeALookupAtTheEnd) {
  for (const std::string columns : {"128", "8"})
    EXPECT_EQ(released_before_last("graph @f(%t: f32[64,64], %a: f32[64,64] donated, %w: f32[64," + columns +
                                   R"(], %i: i64[64]) {
      %at = transpose(%a){perm=[1,0]}
      %dw = matmul(%at, %t)
      %dx = matmul(%t, %w)
      %zero = full{value=0, shape=[100,)" +
                                   columns + R"(], dtype=f32}
      %de = index_put(%zero, %i, %dx){axis=0, mode="add"}
      return %dw, %de
    })"),
              1)
        << columns;
}

// The call of the library that computes the map may have to be repeated without it.
TEST(Donated, GoesBackBeforeACallThatMayBeRepeated) {
  EXPECT_EQ(released_before_last(R"(graph @f(%t: f32[64,64], %a: f32[64,64] donated, %w: f32[64,64]) {
    %p = matmul(%a, %w)
    %q = matmul(%t, %w)
    %y = relu(%q)
    return %p, %y
  })"),
            1);
}

TEST(Donated, OutputsWithoutMemoryNeedAHost) {
  const auto program = program_of("graph @f(%a: f32[8]) {\n %b = exp(%a)\n return %b\n}");
  HostTensor a(DType::f32, {8}), b(DType::f32, {8});
  std::vector<Tensor> in{tensor_of(a)}, out{tensor_of(b)};
  out[0].data = nullptr;
  EXPECT_EQ(program->run(in, out).message(), "output %b has no data");
  struct Poor final : Plan::Host {
    void* allocate(int) override { return nullptr; }
    void release(int) override {}
  } host;
  EXPECT_EQ(program->run(in, out, nullptr, &host).code(), Code::environment);
}

TEST(Donated, MustNotOverlapAnotherTensor) {
  for (const int more : {0, 40}) {  // many tensors are compared in another way
    std::string text = "graph @f(%a: f32[8] donated, %b: f32[8]", sum = "  %s0 = add(%a, %b)\n";
    for (int i = 0; i < more; ++i) {
      const std::string n = std::to_string(i), next = std::to_string(i + 1);
      text += ", %x" + n + ": f32[8] donated";
      sum += "  %s" + next + " = add(%s" + n + ", %x" + n + ")\n";
    }
    const auto program = program_of(text + ") {\n" + sum + "  return %s" + std::to_string(more) + "\n}");
    std::vector<HostTensor> inputs(2 + static_cast<size_t>(more), HostTensor(DType::f32, {8}));
    HostTensor out(DType::f32, {8});
    const auto status_with = [&](void* a) {
      std::vector<Tensor> in;
      for (HostTensor& t : inputs) in.push_back(tensor_of(t));
      in[0].data = a;
      const std::vector<Tensor> outputs{tensor_of(out)};
      return program->run(in, outputs);
    };
    EXPECT_TRUE(status_with(inputs[0].bytes.data()).ok());
    EXPECT_EQ(status_with(inputs[1].bytes.data()).message(), "donated input %a overlaps input %b");
    EXPECT_EQ(status_with(out.bytes.data()).code(), Code::invalid);
  }
}

// Five steps whose results have 1 MiB each.
constexpr const char* kLargeChain = R"(graph @f(%a: f32[512,512]) {
  %p = softmax(%a){axis=0}
  %q = softmax(%p){axis=1}
  %r = softmax(%q){axis=0}
  %s = softmax(%r){axis=1}
  %t = softmax(%s){axis=0}
  return %t
})";

TEST(Outputs, HoldLargeIntermediates) {
  const auto program = program_of(kLargeChain);
  std::vector<HostTensor> inputs(1, HostTensor(DType::f32, {512, 512}));
  std::vector<HostTensor> outputs{HostTensor(DType::f32, {512, 512})};
  ASSERT_TRUE(run(*program, inputs, outputs).ok());
  EXPECT_NE(program->explain(false).find(", in outputs 1048576 bytes"), std::string::npos)
      << program->explain(false);
  ran(kLargeChain, 2);
}

// The host may pass the memory of %x for %y, which no intermediate may touch before.
TEST(Outputs, ThatMayBeInputsHoldNone) {
  const auto program = program_of(R"(graph @f(%x: f32[512,512], %w: f32[512,512]) {
    %p = softmax(%w){axis=0}
    %q = softmax(%p){axis=1}
    %r = softmax(%q){axis=0}
    %s = transpose(%r){perm=[1,0]}
    %y = add(%x, %s)
    return %y
  })");
  std::vector<HostTensor> inputs{random_tensor(DType::f32, {512, 512}, 1),
                                 random_tensor(DType::f32, {512, 512}, 2)};
  std::vector<HostTensor> outputs{HostTensor(DType::f32, {512, 512})};
  ASSERT_TRUE(run(*program, inputs, outputs).ok());
  const std::vector<Tensor> in{tensor_of(inputs[0]), tensor_of(inputs[1])}, same{tensor_of(inputs[0])};
  const Status status = program->run(in, same);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(inputs[0].bytes, outputs[0].bytes);
}

TEST(Donated, IsNoParamAndDefinesNoSymbol) {
  for (const char* text : {"graph @f(%a: f32[4] param donated) {\n %b = exp(%a)\n return %b\n}",
                           "graph @f(%n: i64[] donated = N, %a: f32[N]) {\n %b = exp(%a)\n return %b\n}",
                           "graph @f(%a: f32[4] donated) {\n %b = exp(%a)\n return %b updates %a\n}"}) {
    auto graph = parse_graph(text);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_NE(verify(*graph).message().find("donated"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tenon

// Outputs that update inputs: in place, in another order of the groups, by copies; compared with the evaluator.
#include "src/runtime/compile/updates.h"

#include "src/ir/verify.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

Graph parsed(const char* text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_TRUE(verify(*graph).ok()) << verify(*graph).message();
  return std::move(*graph);
}

struct Case {
  const char* name;
  const char* text;
  std::vector<std::vector<int64_t>> shapes;  // of the inputs
  bool copies = false;                       // whether the program takes a copy
};

const Case kCases[] = {
    {"momentum: one kernel writes both",
     R"(graph @f(%w: f32[N,4], %m: f32[N,4], %g: f32[N,4]) {
       %c = full{value=0.9, shape=[], dtype=f32}
       %d = mul(%m, %c)
       %v = add(%d, %g)
       %u = sub(%w, %v)
       return %u updates %w, %v updates %m
     })",
     {{5, 4}, {5, 4}, {5, 4}}},
    {"a later group reads the input: it runs first",
     R"(graph @f(%w: f32[N,N], %g: f32[N,N]) {
       %u = add(%w, %g)
       %y = matmul(%g, %w)
       return %y, %u updates %w
     })",
     {{7, 7}, {7, 7}}},
    {"a later group reads the input and a value of the writer's group: the update is copied",
     R"(graph @f(%w: f32[N,N], %g: f32[N,N]) {
       %u = add(%w, %g)
       %s = softmax(%w){axis=0}
       %y = matmul(%s, %w)
       return %y, %u updates %w
     })",
     {{7, 7}, {7, 7}},
     true},
    {"a reader needs the new value: the update is copied",
     R"(graph @f(%w: f32[N,N], %g: f32[N,N]) {
       %u = matmul(%w, %g)
       %y = matmul(%u, %w)
       return %y, %u updates %w
     })",
     {{7, 7}, {7, 7}},
     true},
    {"a convolution whose result replaces its images",
     R"(graph @f(%x: f32[N,H,W,32], %w: f32[32,32,3,3]) {
       %h = full{value=0.05, shape=[], dtype=f32}
       %v = mul(%w, %h)
       %u = convolution(%x, %v){strides=[1,1], padding=[1,1], padding_high=[1,1], dilations=[1,1], layout="channels_last"}
       return %u updates %x
     })",
     {{1, 10, 10, 32}, {32, 32, 3, 3}},
     true},
    {"a convolution behind an update, of an image with an infinity",
     R"(graph @f(%s: f32[4], %x: f32[N,H,W,16], %w: f32[32,16,3,3]) {
       %t = add(%s, %s)
       %i = iota(){axis=0, shape=[N], dtype=f32}
       %r = reciprocal(%i)
       %n = reshape(%r){shape=[N,1,1,1]}
       %p = add(%x, %n)
       %c = convolution(%p, %w){strides=[1,1], padding=[1,1], padding_high=[1,1], dilations=[1,1], layout="channels_last"}
       %z = full{value=0, shape=[], dtype=f32}
       %y = gt(%c, %z)
       return %y, %t updates %s
     })",
     {{4}, {2, 7, 8, 16}, {32, 16, 3, 3}}},
    {"a product of the input with itself",
     "graph @f(%w: f32[N,N]) {\n %u = matmul(%w, %w)\n return %u updates %w\n}",
     {{9, 9}},
     true},
    {"two inputs change places",
     "graph @f(%a: f32[N], %b: f32[N]) {\n return %b updates %a, %a updates %b\n}",
     {{33}, {33}},
     true},
    {"one value is an output and updates two inputs",
     R"(graph @f(%a: f32[N], %b: f32[N]) {
       %s = add(%a, %b)
       return %s, %s updates %a, %s updates %b
     })",
     {{33}, {33}}},
    {"the reverse of the input",
     "graph @f(%a: f32[N]) {\n %r = flip(%a){axes=[0]}\n return %r updates %a\n}",
     {{33}},
     true},
    {"a constant replaces the input",
     "graph @f(%a: f32[3]) {\n %z = full{value=0, shape=[3], dtype=f32}\n return %z updates %a\n}",
     {{3}}},
    {"an update runs before a product of another step of the optimizer",
     R"(graph @f(%x: f32[N,N], %a: f32[N,N], %b: f32[N,N]) {
       %ga = matmul(%x, %x)
       %gb = matmul(%x, %b)
       %ua = sub(%a, %ga)
       %ub = sub(%b, %gb)
       return %ua updates %a, %ub updates %b
     })",
     {{9, 9}, {9, 9}, {9, 9}}},
    {"a row of a cache",
     R"(graph @f(%cache: f32[N,8], %row: f32[1,8], %at: i64[1]) {
       %c = index_put(%cache, %at, %row){axis=0}
       %s = sum(%c){axes=[0]}
       return %s, %c updates %cache
     })",
     {{6, 8}, {1, 8}, {1}}},
    {"a column of a cache, at a position of another type that counts from the end",
     R"(graph @f(%cache: f32[3,N,4], %row: f32[3,2,4], %p: i32[2]) {
       %minus = full{value=-5, shape=[], dtype=i32}
       %at = add(%p, %minus)
       %c = index_put(%cache, %at, %row){axis=1, mode="add"}
       return %c updates %cache
     })",
     {{3, 6, 4}, {3, 2, 4}, {2}}},
    {"two layers with caches: lookups and a call that may be repeated stand behind the first update",
     R"(graph @f(%a: f32[N,8], %b: f32[N,8], %w: f32[8,8], %row: f32[1,8], %at: i64[1], %i: i32[3]) {
       %c = index_put(%a, %at, %row){axis=0, wrap=false}
       %s = sum(%c){axes=[0], keepdims=true}
       %h = matmul(%s, %w)
       %g = gelu(%h)
       %d = index_put(%b, %at, %g){axis=0}
       %t = gather(%d, %i){axis=0}
       return %t, %c updates %a, %d updates %b
     })",
     {{6, 8}, {6, 8}, {8, 8}, {1, 8}, {1}, {3}}},
    {"an index that depends on the updated cache: the update is copied",
     R"(graph @f(%cache: f32[N,8], %row: f32[1,8], %at: i64[1], %x: f32[8,3]) {
       %c = index_put(%cache, %at, %row){axis=0}
       %top = argmax(%c){axis=1}
       %t = gather(%x, %top){axis=0}
       return %t, %c updates %cache
     })",
     {{6, 8}, {1, 8}, {1}, {8, 3}},
     true},
    {"an output is a reshape of a copied update: the update is copied once",
     R"(graph @f(%x: f32[N,M], %at: i64[2]) {
       %row = slice(%x){axis=0, start=1, end=2, step=1}
       %rows = expand(%row){shape=[2,M]}
       %u = index_put(%x, %at, %rows){axis=0, mode="add"}
       %y = reshape(%u){shape=[N*M]}
       return %y, %u updates %x
     })",
     {{4, 6}, {2}},
     true},
    {"a copied update is also an output",
     R"(graph @f(%x: f32[N,M], %y: f32[N,M], %at: i64[2]) {
       %u = add(%x, %y)
       %t = gather(%u, %at){axis=0}
       return %t, %u, %u updates %x
     })",
     {{4, 6}, {4, 6}, {2}},
     true},
    {"a division by a number that depends on the update: the update is copied",
     R"(graph @f(%a: i64[N], %b: i64[N]) {
       %one = full{value=1, shape=[], dtype=i64}
       %n = cumsum(%a){axis=0}
       %u = maximum(%n, %one)
       %q = trunc_div(%b, %u)
       %r = matmul(%q, %u)
       return %r, %u updates %a
     })",
     {{6}, {6}},
     true},
};

std::vector<HostTensor> inputs_of(const Graph& graph, const Case& c) {
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < c.shapes.size(); ++i)
    inputs.push_back(
        random_tensor(graph.type(graph.inputs[i].value).dtype, c.shapes[i], static_cast<uint32_t>(i + 1)));
  return inputs;
}

void expect_near(const HostTensor& got, const HostTensor& want, const std::string& what) {
  for (int64_t i = 0; i < want.count(); ++i)
    ASSERT_NEAR(got.number(i), want.number(i), 1e-4 * std::max(1.0, std::abs(want.number(i))))
        << what << ", element " << i;
}

// Runs twice, so that the second run reads what the first one wrote.
void check(const Case& c, const ProgramOptions& options = {}) {
  SCOPED_TRACE(c.name);
  const Graph graph = parsed(c.text);
  auto program = Program::make(graph, options, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  std::vector<HostTensor> inputs = inputs_of(graph, c);
  const size_t plain = graph.plain_outputs();
  for (int round = 0; round < 2; ++round) {
    auto expected = evaluate(graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    std::vector<HostTensor> want = inputs;
    for (size_t o = plain; o < graph.outputs.size(); ++o) want[*graph.outputs[o].updates] = (*expected)[o];
    std::vector<HostTensor> outputs = blank_like(*expected);
    outputs.resize(plain);
    const Status status = run(**program, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t o = 0; o < plain; ++o) expect_near(outputs[o], (*expected)[o], "output");
    for (size_t i = 0; i < inputs.size(); ++i) expect_near(inputs[i], want[i], "input");
  }
}

TEST(Update, Cases) {
  for (const Case& c : kCases) check(c);
}

TEST(Update, OtherBackEnds) {
  for (const char* backend : {"reference", "cpu"}) {
    ProgramOptions options;
    options.backends = {backend};
    for (const Case& c : kCases) check(c, options);
  }
}

TEST(Update, VerifiedRuns) {
  ProgramOptions options;
  options.verify = 2;
  for (const Case& c : kCases) check(c, options);
}

bool copies(Program& program) {
  const bool some = program.explain(false).find("copied after all steps") != std::string::npos;
  EXPECT_EQ(program.explain(true).find("\"copied_updates\": []") == std::string::npos, some);
  return some;
}

TEST(Update, InPlaceOrCopied) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    auto program = Program::make(parsed(c.text), {}, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    EXPECT_EQ(copies(**program), c.copies) << (*program)->explain(false);
  }
}

TEST(Update, StridedInput) {
  const Graph graph = parsed(R"(graph @f(%w: f32[4,N] strides=[1,5], %g: f32[4,N]) {
    %u = add(%w, %g)
    return %u updates %w
  })");
  auto program = Program::make(graph, {}, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  std::vector<float> w(15, 1), g(12, 2);  // w: 3 rows of 5, of which 4 belong to the tensor
  const int64_t shape[] = {4, 3}, strides[] = {1, 5};
  const Tensor in[] = {{w.data(), DType::f32, shape, strides}, {g.data(), DType::f32, shape, {}}};
  const Status status = (*program)->run(in, {});
  ASSERT_TRUE(status.ok()) << status.message();
  for (size_t i = 0; i < w.size(); ++i) EXPECT_EQ(w[i], i % 5 == 4 ? 1 : 3) << i;
}

// Runs the ranges one after the other, the last one first.
class TestThreads final : public Parallel {
 public:
  explicit TestThreads(int threads) : threads_(threads) {}
  int threads() const override { return threads_; }
  void run(int64_t n, int most, RangeFn fn, void* arg) override {
    for (int t = most; t-- > 0;)
      if (n * t / most < n * (t + 1) / most) fn(arg, t, n * t / most, n * (t + 1) / most);
  }

 private:
  const int threads_;
};

// Runs with indices out of range, then with valid ones. The program writes in place.
void expect_unchanged_by_faults(const char* text, const std::vector<HostTensor>& valid,
                                const std::vector<std::pair<size_t, int64_t>>& faults,
                                const std::vector<const char*>& messages) {
  const Graph graph = parsed(text);
  for (const int threads : {1, 4}) {
    TestThreads parallel(threads);
    ProgramOptions options;
    options.parallel = &parallel;
    auto program = Program::make(graph, options, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    EXPECT_FALSE(copies(**program)) << (*program)->explain(false);
    auto expected = evaluate(graph, valid);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    std::vector<HostTensor> outputs = blank_like(*expected);
    outputs.resize(graph.plain_outputs());
    for (size_t f = 0; f < faults.size(); ++f) {
      std::vector<HostTensor> inputs = valid;
      inputs[faults[f].first].set(0, {0, faults[f].second});
      const std::vector<HostTensor> before = inputs;
      const Status status = run(**program, inputs, outputs);
      EXPECT_EQ(status.code(), Code::invalid);
      EXPECT_NE(status.message().find(messages[f]), std::string::npos) << status.message();
      for (size_t i = 0; i < inputs.size(); ++i) EXPECT_EQ(inputs[i].bytes, before[i].bytes) << i;
    }
    std::vector<HostTensor> inputs = valid;
    ASSERT_TRUE(run(**program, inputs, outputs).ok());
    for (size_t o = graph.plain_outputs(); o < graph.outputs.size(); ++o)
      expect_near(inputs[*graph.outputs[o].updates], (*expected)[o], "input");
  }
}

TEST(Update, AFaultLeavesTheInput) {
  std::vector<HostTensor> valid{random_tensor(DType::f32, {40}, 1), HostTensor(DType::i64, {2})};
  valid[1].set(1, {0, 39});
  expect_unchanged_by_faults(R"(graph @f(%w: f32[N], %i: i64[M]) {
    %t = gather(%w, %i){axis=0}
    %s = sum(%t){axes=[0]}
    %u = add(%w, %s)
    %v = gather(%u, %i){axis=0}
    return %v, %u updates %w
  })",
                             valid, {{1, 99}, {1, -41}}, {"gather(", "gather("});
}

TEST(Update, AFaultBehindUpdatesLeavesAllInputs) {
  std::vector<HostTensor> valid;
  for (uint32_t i = 0; i < 2; ++i) valid.push_back(random_tensor(DType::f32, {300, 8}, i + 1));
  valid.push_back(random_tensor(DType::f32, {8, 8}, 3));
  valid.push_back(random_tensor(DType::f32, {1, 8}, 4));
  for (int i = 0; i < 3; ++i) valid.push_back(HostTensor(DType::i64, {1}));
  expect_unchanged_by_faults(R"(graph @f(%a: f32[N,8], %b: f32[N,8], %w: f32[8,8], %row: f32[1,8],
                                         %i: i64[1], %j: i64[1], %k: i64[1]) {
    %c = index_put(%a, %i, %row){axis=0}
    %s = sum(%c){axes=[0], keepdims=true}
    %h = matmul(%s, %w)
    %d = index_put(%b, %j, %h){axis=0, wrap=false}
    %t = gather(%d, %k){axis=0}
    return %t, %c updates %a, %d updates %b
  })",
                             valid, {{4, 300}, {5, -1}, {6, 300}},
                             {"%c = index_put(", "%d = index_put(", "%t = gather("});
}

TEST(Update, Refuses) {
  struct {
    const char *text, *message;
  } cases[] = {
      {"graph @f(%a: f32[N], %b: f32[N]) {\n return %b updates %a, %a\n}",
       "it follows an output that updates"},
      {"graph @f(%a: f32[N], %b: f32[N]) {\n return %b updates %a, %b updates %a\n}",
       "as another output does"},
      {"graph @f(%a: f32[N] param, %b: f32[N]) {\n return %b updates %a\n}", "a param"},
      {"graph @f(%a: f32[N], %b: f32[M]) {\n return %b updates %a\n}", "f32[N] with f32[M]"},
      {"graph @f(%a: f32[N], %b: f32[N]) {\n %c = neg(%a)\n return %b updates %c\n}",
       "which this value is not"},
      {"graph @f(%a: f32[N], %b: f32[N]) {\n return %b strides=[1] updates %a\n}",
       "has the strides of the input"},
  };
  for (const auto& c : cases) {
    auto graph = parse_graph(c.text);
    const Status status = graph.ok() ? verify(*graph) : graph.status();
    EXPECT_NE(status.message().find(c.message), std::string::npos) << status.message() << "\n" << c.text;
  }
}

TEST(Update, RefusesOverlapAndFreezing) {
  const Graph graph =
      parsed("graph @f(%a: f32[N], %b: f32[N]) {\n %c = add(%a, %b)\n return %c updates %a\n}");
  HostTensor a = random_tensor(DType::f32, {8}, 1);
  const Tensor one = tensor_of(a);
  auto program = Program::make(graph, {}, {});
  ASSERT_TRUE(program.ok());
  const Tensor both[] = {one, one};
  EXPECT_NE((*program)->run(both, {}).message().find("overlaps input %b"), std::string::npos);
  ProgramOptions options;
  options.freeze = true;
  const Tensor frozen[] = {one, {}};
  EXPECT_NE(Program::make(graph, options, frozen).status().message().find("cannot be frozen"),
            std::string::npos);
}

// So many tensors are sorted instead of compared in pairs.
TEST(Update, OverlapOfManyTensors) {
  constexpr int kCount = 40;
  constexpr int64_t kLength = 4;
  std::string inputs, lines, outputs;
  for (int i = 0; i < kCount; ++i) {
    const std::string n = std::to_string(i), comma = i ? ", " : "";
    inputs += comma + "%w" + n + ": f32[4], %g" + n + ": f32[4]";
    lines += "%u" + n + " = add(%w" + n + ", %g" + n + ")\n";
    outputs += comma + "%u" + n + " updates %w" + n;
  }
  const Graph graph = parsed(("graph @f(" + inputs + ") {\n" + lines + "return " + outputs + "\n}").c_str());
  auto program = Program::make(graph, {}, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  std::vector<float> memory(size_t{2 * kCount * kLength}, 1);
  const int64_t shape[] = {kLength};
  std::vector<Tensor> in;
  auto at = [&](int64_t element) { return Tensor{memory.data() + element, DType::f32, shape, {}}; };
  for (int i = 0; i < 2 * kCount; ++i) in.push_back(at(i * kLength));  // neighbours
  const Status status = (*program)->run(in, {});
  ASSERT_TRUE(status.ok()) << status.message();
  for (size_t i = 0; i < memory.size(); ++i)
    EXPECT_EQ(memory[i], i / kLength % 2 == 0 ? 2 : 1) << "element " << i;
  const std::vector<float> before = memory;
  auto refused = [&](int changed, int64_t element, const std::string& other) {
    std::vector<Tensor> moved = in;
    moved[static_cast<size_t>(changed)] = at(element);
    const std::string message = (*program)->run(moved, {}).message();
    EXPECT_NE(message.find("overlaps " + other), std::string::npos) << message;
  };
  refused(7, 20 * kLength + 3, "input %g3");   // read, across the end of an updated input
  refused(8, 60 * kLength - 1, "input %g29");  // updated, between one that is read and an updated one
  refused(8, 61 * kLength, "input %g30");      // updated, the same memory as one that is read
  EXPECT_EQ(memory, before);
  in[7] = in[9];  // both are only read
  EXPECT_TRUE((*program)->run(in, {}).ok());
}

TEST(Update, PrintsAndParses) {
  const char* text = R"(graph @f(%a: f32[N], %b: f32[N]) {
  %c = add(%a, %b) : f32[N]
  return %b, %c updates %a
}
)";
  EXPECT_EQ(print(parsed(text)), text);
}

}  // namespace
}  // namespace tenon

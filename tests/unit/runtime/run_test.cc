// Programs from end to end: from text to tensors, compared with the evaluator.
#include <atomic>
#include <thread>

#include "tests/support/run_help.h"
#include "tests/support/sanitized.h"

namespace tenon {
namespace {

struct Case {
  const char* name;
  const char* text;
  std::vector<std::vector<int64_t>> shapes;  // shapes of the inputs
};

void check(const Case& c, std::vector<std::string> backends = {}) {
  SCOPED_TRACE(c.name);
  auto graph = parse_graph(c.text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < c.shapes.size(); ++i)
    inputs.push_back(
        random_tensor(graph->type(graph->inputs[i].value).dtype, c.shapes[i], static_cast<uint32_t>(i + 1)));
  auto expected = evaluate(*graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  ProgramOptions options;
  options.backends = std::move(backends);
  auto program = Program::make(*graph, options, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ((*program)->stats().reference_steps, 0) << (*program)->explain(false);
  std::vector<HostTensor> outputs = blank_like(*expected);
  for (int round = 0; round < 2; ++round) {
    Status status = run(**program, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t o = 0; o < outputs.size(); ++o)
      for (int64_t i = 0; i < outputs[o].count(); ++i) {
        const double want = (*expected)[o].number(i), got = outputs[o].number(i);
        const double tolerance = outputs[o].dtype == DType::bf16 ? 2e-2 : 2e-5;
        ASSERT_NEAR(got, want, tolerance * std::max(1.0, std::abs(want)))
            << "output " << o << " element " << i << "\n"
            << (*program)->explain(false);
      }
  }
}

TEST(Run, ExplainsWhatSharingSaves) {
  auto graph = parse_graph(R"(graph @f(%x: f32[8,8]) {
    %a = matmul(%x, %x)
    %b = matmul(%a, %x)
    %c = matmul(%b, %x)
    %d = matmul(%c, %x)
    return %d
  })");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  auto program = Program::make(*graph, {}, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  std::vector<HostTensor> inputs{random_tensor(DType::f32, {8, 8}, 1)},
      outputs{HostTensor(DType::f32, {8, 8})};
  ASSERT_TRUE(run(**program, inputs, outputs).ok());
  const std::string text = (*program)->explain(false);
  EXPECT_NE(text.find("intermediates 512 bytes, without sharing 768 bytes"), text.npos) << text;
}

TEST(Run, Cases) {
  const Case cases[] = {
      {"a kept row and a loop that is needed before the row's own",
       R"(graph @f(%x: f32[N,M]) {
        %s = softmax(%x){axis=1}
        %f = flip(%s){axes=[0]}
        %i = cast(%f){dtype=i32}
        %c = cast(%i){dtype=f32}
        return %c, %x
      })",
       {{16, 13}}},
      {"pointwise with bias",
       R"(graph @f(%x: f32[N,M], %b: f32[M]) {
        %s = add(%x, %b)
        %y = gelu(%s)
        return %y
      })",
       {{5, 37}, {37}}},
      {"flat", "graph @f(%x: f32[N]) {\n %y = exp(%x)\n %z = mul(%y, %x)\n return %z\n}", {{1000}}},
      {"softmax", "graph @f(%x: f32[A,B,N]) {\n %y = softmax(%x){axis=-1}\n return %y\n}", {{3, 4, 65}}},
      {"softmax over the first axis",
       "graph @f(%x: f32[N,M]) {\n %y = softmax(%x){axis=0}\n return %y\n}",
       {{33, 40}}},
      {"layer norm",
       R"(graph @f(%x: f32[N,M], %r: f32[N,M], %w: f32[M], %b: f32[M]) {
        %s = add(%x, %r)
        %y = layer_norm(%s, %w, %b){axes_count=1, eps=1e-5}
        return %y, %s
      })",
       {{7, 100}, {7, 100}, {100}, {100}}},
      {"column sum", "graph @f(%x: f32[N,M]) {\n %y = sum(%x){axes=[0]}\n return %y\n}", {{50, 70}}},
      {"all", "graph @f(%x: f32[N,M]) {\n %y = mean(%x){axes=[0,1]}\n return %y\n}", {{50, 70}}},
      {"all of many", "graph @f(%x: f32[N,M]) {\n %y = mean(%x){axes=[0,1]}\n return %y\n}", {{300, 700}}},
      {"few long rows",
       R"(graph @f(%x: f32[3,N], %w: f32[3,1]) {
        %p = mul(%x, %w)
        %s = sum(%p){axes=[1], keepdims=true}
        %a = max(%p){axes=[1], keepdims=true}
        %d = mul(%s, %a)
        %y = add(%p, %d)
        return %y, %s
      })",
       {{3, 40000}, {3, 1}}},
      {"many rows of few columns",
       R"(graph @f(%x: f32[N,M], %w: f32[M]) {
        %p = mul(%x, %w)
        %s = sum(%p){axes=[0]}
        %q = mul(%p, %p)
        %t = sum(%q){axes=[0]}
        %y = sub(%t, %s)
        return %y, %s
      })",
       {{5000, 5}, {5}}},
      {"narrow rows",
       R"(graph @f(%x: bf16[B,N,3], %w: f32[3], %z: f32[N,7]) {
        %c = cast(%x){dtype=f32}
        %p = mul(%c, %w)
        %y = softmax(%p){axis=-1}
        %s = slice(%z){axis=1, start=2, end=5}
        %q = add(%p, %s)
        %t = exp(%q)
        return %y, %t
      })",
       {{2, 101, 3}, {3}, {101, 7}}},
      {"rows in batches",
       "graph @f(%x: f32[B,N,M]) {\n %y = sum(%x){axes=[1]}\n %z = neg(%y)\n return %z\n}",
       {{3, 2500, 300}}},
      {"all of 16-bit floats", "graph @f(%x: bf16[N]) {\n %y = max(%x){axes=[0]}\n return %y\n}", {{60000}}},
      {"transpose",
       "graph @f(%x: f32[N,M]) {\n %t = transpose(%x){perm=[1,0]}\n %y = neg(%t)\n return %y\n}",
       {{9, 35}}},
      {"rotary",
       R"(graph @f(%x: f32[B,H,S,64], %c: f32[S,64], %s: f32[S,64]) {
        %a = slice(%x){axis=3, start=0, end=32}
        %b = slice(%x){axis=3, start=32, end=64}
        %n = neg(%b)
        %r = concat(%n, %a){axis=3}
        %p = mul(%x, %c)
        %q = mul(%r, %s)
        %y = add(%p, %q)
        return %y
      })",
       {{2, 3, 5, 64}, {5, 64}, {5, 64}}},
      {"embedding",
       "graph @f(%w: f32[V,D], %i: i64[B,S]) {\n %y = gather(%w, %i){axis=0}\n return %y\n}",
       {{10, 19}, {2, 3}}},
      {"matmul by its body",
       "graph @f(%a: f32[N,K], %b: f32[K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{5, 8}, {8, 21}}},
      {"group norm",
       R"(graph @f(%x: f32[N,8,H,W], %w: f32[8], %b: f32[8]) {
        %y = group_norm(%x, %w, %b){groups=2, eps=1e-5}
        return %y
      })",
       {{2, 8, 5, 7}, {8}, {8}}},
      {"cumsum",
       "graph @f(%x: f32[N,M]) {\n %y = cumsum(%x){axis=1}\n %z = cumsum(%x){axis=0}\n return %y, %z\n}",
       {{5, 9}}},
      {"scans along rows, of whole vectors of them and of the rest",
       R"(graph @f(%x: f32[N,M], %w: f32[M], %i: i8[N,M], %d: f64[N,M]) {
        %p = mul(%x, %w)
        %y = cumsum(%p){axis=1}
        %z = sub(%y, %x)
        %a = cummax(%i){axis=1}
        %b = cumprod(%d){axis=1}
        %c = cummin(%d){axis=1}
        return %y, %z, %a, %b, %c
      })",
       {{37, 29}, {29}, {37, 29}, {37, 29}}},
      {"argmax", "graph @f(%x: f32[N,M]) {\n %y = argmax(%x){axis=1}\n return %y\n}", {{5, 33}}},
      {"outputs that are inputs and views",
       R"(graph @f(%x: f32[N,M]) {
        %t = transpose(%x){perm=[1,0]}
        return %x, %t, %t
      })",
       {{4, 6}}},
      {"pad and concat",
       R"(graph @f(%x: f32[N,M]) {
        %p = pad(%x){low=[1,2], high=[0,1], value=3.0}
        %q = concat(%p, %p){axis=0}
        return %q
      })",
       {{4, 6}}},
      {"scatter",
       R"(graph @f(%x: f32[N,M], %i: i64[K], %u: f32[K,M]) {
        %y = index_put(%x, %i, %u){axis=0, mode="add"}
        return %y
      })",
       {{5, 6}, {9}, {9, 6}}},
      {"a scatter that folds",
       R"(graph @f(%x: f32[N,M], %i: i64[K,M], %u: f32[K,M]) {
        %a = scatter(%x, %i, %u){axis=0, mode="mul"}
        %b = scatter(%x, %i, %u){axis=0, mode="max"}
        %c = scatter(%x, %i, %u){axis=0, mode="min"}
        %d = cast(%x){dtype=bool}
        %e = cast(%u){dtype=bool}
        %f = scatter(%d, %i, %e){axis=0, mode="mul"}
        %g = scatter(%d, %i, %e){axis=0, mode="max"}
        return %a, %b, %c, %f, %g
      })",
       {{5, 6}, {9, 6}, {9, 6}}},
      {"attention",
       R"(graph @f(%q: f32[B,4,L,16], %k: f32[B,2,L,16], %v: f32[B,2,L,16]) {
        %y = attention(%q, %k, %v){causal=true, scale=0.25}
        return %y
      })",
       {{2, 4, 7, 16}, {2, 2, 7, 16}, {2, 2, 7, 16}}},
      {"convolution",
       R"(graph @f(%x: f32[N,4,9,9], %w: f32[6,2,3,3], %b: f32[6]) {
        %y = convolution(%x, %w, %b){strides=[2,2], padding=[1,1], padding_high=[1,1], dilations=[1,1], groups=2}
        %r = relu(%y)
        return %r
      })",
       {{2, 4, 9, 9}, {6, 2, 3, 3}, {6}}},
      {"reshape that loops cannot follow",
       R"(graph @f(%x: f32[A,B]) {
        %a = slice(%x){axis=1, start=1, end=3}
        %r = reshape(%a){shape=[2,A]}
        %y = slice(%r){axis=1, start=1, end=A}
        %c = cumsum(%y){axis=1}
        return %y, %c
      })",
       {{4, 4}}},
      {"cumsum through a reshape of strided memory",
       R"(graph @f(%x: f32[M,4]) {
        %t = transpose(%x){perm=[1,0]}
        %r = reshape(%t){shape=[-1]}
        %y = cumsum(%r){axis=0}
        return %y
      })",
       {{5, 4}}},
      {"no elements through a reshape",
       R"(graph @f(%x: f32[N,0,6]) {
        %r = reshape(%x){shape=[0,3,N,2]}
        %y = sum(%r){axes=[0]}
        return %y
      })",
       {{5, 0, 6}}},
      {"axes of a scalar",
       R"(graph @f(%x: f32[], %i: i64[K]) {
        %j = full(){value=0, shape=[], dtype=i64}
        %a = argmax(%x){axis=0}
        %c = cumsum(%x){axis=-1}
        %z = bit_and(%i, %j)
        %g = gather(%x, %z){axis=0}
        %f = flip(%g){axes=[]}
        return %a, %c, %f
      })",
       {{}, {3}}},
      {"pad of integers with a number that is none",
       R"(graph @f(%x: i64[N]) {
        %y = pad(%x){low=[1], high=[0], value=-0.5}
        return %y
      })",
       {{4}}},
      {"a reduction beside a scan",
       R"(graph @f(%x: f32[N,M]) {
        %c = cumsum(%x){axis=1}
        %s = sum(%c){axes=[1]}
        return %s
      })",
       {{4, 5}}},
      {"empty",
       "graph @f(%x: f32[N,M]) {\n %y = exp(%x)\n %s = sum(%x){axes=[0]}\n return %y, %s\n}",
       {{0, 6}}},
      {"no elements, bound to strides of 0",
       R"(graph @f(%x: bf16[17,N,1,1,0]) {
        %c = cast(%x){dtype=bool}
        %i = cast(%c){dtype=i64}
        %s = max(%i){axes=[0,1,-3,4]}
        return %s, %c strides=[0,0,0,0,1]
      })",
       {{17, 7, 1, 1, 0}}},
      {"bf16", "graph @f(%x: bf16[N,M]) {\n %y = softmax(%x){axis=-1}\n return %y\n}", {{3, 50}}},
      {"scalar", "graph @f(%x: f32[], %y: f32[]) {\n %z = add(%x, %y)\n return %z\n}", {{}, {}}},
  };
  for (const Case& c : cases) {
    check(c, {"cpu"});
    check(c);
  }
}

// Cases that are hard for loops: they are split until kernels cover them.
TEST(Run, NothingIsEvaluatedElementByElement) {
  const Case cases[] = {
      {"a pad by sizes, wider than the operand",
       R"(graph @f(%x: f32[K,L], %n: f32[N]) {
        %y = pad(%x){low=[N,1], high=[N-2,N], value=2}
        return %y
      })",
       {{3, 4}, {5}}},
      {"a pad by sizes that crops",
       R"(graph @f(%x: f32[K,L], %n: f32[N]) {
        %y = pad(%x){low=[N-4,0], high=[1-N,N-5], value=2}
        return %y
      })",
       {{9, 40}, {3}}},
      {"a pad of nothing by sizes",
       R"(graph @f(%x: f32[K,L], %n: f32[N]) {
        %y = pad(%x){low=[N,N], high=[N,N], value=2}
        return %y
      })",
       {{0, 4}, {2}}},
      {"a padded row read at two places",
       R"(graph @f(%x: f32[K], %n: f32[N]) {
        %p = pad(%x){low=[N], high=[N]}
        %a = slice(%p){axis=0, start=0, end=K+2*N-1}
        %b = slice(%p){axis=0, start=1, end=K+2*N}
        %y = sub(%b, %a)
        return %y
      })",
       {{7}, {3}}},
      {"a row around a square that has a column around",
       R"(graph @f(%x: f32[8,8]) {
        %a = slice(%x){axis=1, start=1, end=2}
        %b = slice(%x){axis=1, start=6, end=7}
        %c = concat(%a, %x, %b){axis=1}
        %d = slice(%c){axis=0, start=1, end=2}
        %e = slice(%c){axis=0, start=6, end=7}
        %y = concat(%d, %c, %e){axis=0}
        return %y
      })",
       {{8, 8}}},
      {"a scatter of literals",
       R"(graph @f(%x: f32[N,M], %i: i64[N,K]) {
        %u = full(){value=3, shape=[N,K], dtype=f32}
        %y = scatter(%x, %i, %u){axis=1}
        %z = scatter(%y, %i, %u){axis=1, mode="add"}
        return %z
      })",
       {{4, 9}, {4, 3}}},
      {"a scatter at counted places, into a literal",
       R"(graph @f(%u: f32[K,M]) {
        %x = full(){value=1, shape=[2*K,M], dtype=f32}
        %i = iota(){shape=[K], dtype=i64, step=2}
        %y = index_put(%x, %i, %u){axis=0}
        return %y
      })",
       {{4, 300}}},
      {"a scatter of a view that is no strides",
       R"(graph @f(%x: f32[6,M], %i: i64[3,M], %u: f32[M,3]) {
        %t = transpose(%u){perm=[1,0]}
        %w = reshape(%t){shape=[3,M]}
        %y = scatter(%x, %i, %w){axis=0, mode="add"}
        return %y
      })",
       {{6, 300}, {3, 300}, {300, 3}}},
  };
  for (const Case& c : cases) {
    check(c, {"cpu"});
    check(c);
  }
}

TEST(Run, ManyTensorsAreJoined) {
  for (const int count : sampled<int>({70, 25, 150})) {
    std::string inputs, names;
    for (int i = 0; i < count; ++i) {
      inputs += (i ? ", %x" : "%x") + std::to_string(i) + ": f32[N" + std::to_string(i) + ",3]";
      names += (i ? ", %x" : "%x") + std::to_string(i);
    }
    const std::string text =
        "graph @f(" + inputs + ") {\n %y = concat(" + names + "){axis=0}\n %z = exp(%y)\n return %z\n}";
    Case c{"concat", text.c_str(), {}};
    for (int i = 0; i < count; ++i) c.shapes.push_back({i % 4, 3});
    check(c);
  }
}

// Sets each element of input `wrong` to `value`, one at a time: the run fails with a message that names the node, and the next run
// with right values succeeds. Unless `needed`, a run may also succeed, if the result at the faulty element is not needed.
void check_faults(const std::string& text, std::vector<HostTensor> inputs, size_t wrong, double value,
                  const std::string& node, const std::string& what, const ProgramOptions& options,
                  bool needed = true) {
  auto graph = parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto expected = evaluate(*graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  auto program = Program::make(*graph, options, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  HostTensor y((*expected)[0].dtype, (*expected)[0].shape);
  std::vector<Tensor> in;
  for (HostTensor& t : inputs) in.push_back(tensor_of(t));
  for (int64_t i = 0; i < inputs[wrong].count(); ++i) {
    const Element before = inputs[wrong].get(i);
    inputs[wrong].set_number(i, value);
    const Status status = (*program)->run(in, std::vector{tensor_of(y)});
    if (needed || !status.ok()) {
      EXPECT_TRUE(status.message().starts_with(node + "(") && status.message().ends_with(what))
          << "element " << i << ": " << status.message() << "\n"
          << (*program)->explain(false);
      EXPECT_EQ(status.code(), Code::invalid);
    }
    inputs[wrong].set(i, before);
    ASSERT_EQ((*program)->run(in, std::vector{tensor_of(y)}).message(), "");
    EXPECT_EQ(y.bytes, (*expected)[0].bytes);
  }
}

TEST(Run, FaultsEndARunAndNoOther) {
  auto numbers = [](DType dtype, std::vector<int64_t> shape) {
    HostTensor t(dtype, std::move(shape));
    for (int64_t i = 0; i < t.count(); ++i) t.set_number(i, static_cast<double>(i % 3 + 1));
    return t;
  };
  for (const char* backend : {"cpu", "reference"}) {
    SCOPED_TRACE(backend);
    ProgramOptions options;
    options.backends = {backend, "reference"};
    const HostTensor x = numbers(DType::f32, {5, 19}), i = numbers(DType::i64, {37}),
                     d = numbers(DType::i32, {37});
    for (double value : {-6.0, 5.0, 1e12})
      check_faults(
          "graph @f(%x: f32[N,M], %i: i64[K]) {\n %y = gather(%x, %i){axis=0}\n %z = neg(%y)\n return "
          "%z\n}",
          {x, i}, 1, value, "%y = gather", ": index out of range", options);
    check_faults(
        "graph @f(%x: f32[N,M], %i: i64[K]) {\n %y = gather(%x, %i){axis=0, wrap=false}\n return %y\n}",
        {x, i}, 1, -1, "%y = gather", ": index out of range", options);
    check_faults("graph @f(%x: f32[N,M], %i: i64[N,K]) {\n %y = take_along(%x, %i){axis=1}\n return %y\n}",
                 {x, numbers(DType::i64, {5, 35})}, 1, 19, "%y = take_along", ": index out of range",
                 options);
    check_faults(R"(graph @f(%x: f32[N,M], %i: i64[K], %u: f32[K,M]) {
      %y = index_put(%x, %i, %u){axis=0, mode="add"}
      return %y
    })",
                 {x, i, numbers(DType::f32, {37, 19})}, 1, 5, "%y = index_put", ": index out of range",
                 options);
    check_faults("graph @f(%a: i32[N], %d: i32[N]) {\n %q = floor_div(%a, %d)\n %y = neg(%q)\n return %y\n}",
                 {d, d}, 1, 0, "%q = floor_div", ": integer division by zero", options);
    check_faults(R"(graph @f(%a: i32[N], %d: i32[N]) {
      %q = remainder(%a, %d)
      %s = slice(%q){axis=0, start=3, end=30}
      %y = neg(%s)
      return %y
    })",
                 {d, d}, 1, 0, "%q = remainder", ": integer division by zero", options, false);
    // The kernel has two nodes; the error names the one with wrong operands.
    const char* both = R"(graph @f(%x: i32[N], %i: i64[K], %d: i32[K]) {
      %g = gather(%x, %i){axis=0}
      %q = trunc_div(%g, %d)
      %y = sum(%q){axes=[0]}
      return %y
    })";
    check_faults(both, {numbers(DType::i32, {5}), i, d}, 1, 5, "%g = gather", ": index out of range",
                 options);
    check_faults(both, {numbers(DType::i32, {5}), i, d}, 2, 0, "%q = trunc_div", ": integer division by zero",
                 options);
  }
}

// An output may share the memory of an input of the same type and shape whose last read is where the output is written.
TEST(Run, OutputsInPlaceOfInputs) {
  struct Update {
    const char* text;
    std::vector<std::pair<size_t, size_t>> together;  // (output, input) pairs that share a buffer
    bool legal;
  };
  const Update updates[] = {
      {"graph @f(%x: f32[N,M], %b: f32[M]) {\n %y = add(%x, %b)\n return %y\n}", {{0, 0}}, true},
      // Momentum: one kernel has both outputs, each in the memory of its input.
      {R"(graph @f(%p: f32[N,M], %v: f32[N,M], %g: f32[N,M]) {
        %c = full{value=0.9, shape=[], dtype=f32}
        %a = mul(%v, %c)
        %w = add(%a, %g)
        %q = sub(%p, %w)
        return %q, %w
      })",
       {{0, 0}, {1, 1}},
       true},
      {R"(graph @f(%x: f32[N,M]) {
        %s = softmax(%x){axis=1}
        return %s
      })",
       {{0, 0}},
       true},
      {R"(graph @f(%x: f32[N,N]) {
        %t = transpose(%x){perm=[1,0]}
        %y = add(%x, %t)
        return %y
      })",
       {{0, 0}},
       false},
      {R"(graph @f(%x: f32[N,N]) {
        %y = neg(%x)
        %z = matmul(%y, %x)
        return %y, %z
      })",
       {{0, 0}},
       false},
      {R"(graph @f(%x: f32[N,N]) {
        %y = neg(%x)
        %z = matmul(%x, %x)
        return %z
      })",
       {{0, 0}},
       false},
      {R"(graph @f(%x: f32[N,M]) {
        %y = neg(%x)
        %s = sum(%x){axes=[0], keepdims=true}
        %z = sub(%x, %s)
        return %y, %z
      })",
       {{0, 0}},
       false},
      {R"(graph @f(%x: f32[N,M]) {
        %y = neg(%x)
        %s = sum(%y){axes=[0,1]}
        %z = mul(%x, %s)
        return %y, %z
      })",
       {{0, 0}},
       false},
      // Two outputs cannot share one input.
      {"graph @f(%x: f32[N,M]) {\n %y = neg(%x)\n %z = abs(%x)\n return %y, %z\n}", {{0, 0}, {1, 0}}, false},
      // A fault may end the run after half of the output is written.
      {"graph @f(%x: i32[N,M], %d: i32[N,M]) {\n %y = floor_div(%x, %d)\n return %y\n}", {{0, 0}}, false},
      {"graph @f(%x: f32[N,M]) {\n %y = cast(%x){dtype=i32}\n return %y\n}", {{0, 0}}, false},
  };
  for (const Update& u : updates) {
    SCOPED_TRACE(u.text);
    auto graph = parse_graph(u.text);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    std::vector<HostTensor> inputs;
    for (const InputBinding& i : graph->inputs) {
      const TensorType& type = graph->type(i.value);
      inputs.push_back(random_tensor(type.dtype, std::vector<int64_t>(type.shape.size(), 37),
                                     static_cast<uint32_t>(inputs.size() + 1)));
      for (int64_t k = 0; type.dtype == DType::i32 && k < inputs.back().count(); ++k)
        inputs.back().set_number(k, static_cast<double>(k % 5 + 1));
    }
    auto program = Program::make(*graph, {}, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    auto expected = evaluate(*graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    std::vector<HostTensor> outputs = *expected;
    std::vector<Tensor> in, out;
    for (HostTensor& t : inputs) in.push_back(tensor_of(t));
    for (HostTensor& t : outputs) out.push_back(tensor_of(t));
    ASSERT_EQ((*program)->run(in, out).message(), "");
    const std::vector<HostTensor> apart = outputs, before = inputs;
    for (auto [o, i] : u.together) out[o].data = in[i].data;
    const Status status = (*program)->run(in, out);
    EXPECT_EQ(status.ok(), u.legal) << status.message() << "\n" << (*program)->explain(false);
    for (auto [o, i] : u.together) {
      if (u.legal)
        EXPECT_EQ(inputs[i].bytes, apart[o].bytes) << "output " << o;
      else
        EXPECT_EQ(inputs[i].bytes, before[i].bytes) << "input " << i;
    }
  }
}

// A fault in one element of many is found by any thread; empty operands cause no fault.
TEST(Run, FaultsOfManyThreadsAndOfNothing) {
  auto graph = parse_graph("graph @f(%a: i64[N], %d: i64[N]) {\n %y = floor_div(%a, %d)\n return %y\n}");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  auto program = Program::make(*graph, {}, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  for (int64_t n : {0, 1, 300001}) {
    HostTensor a(DType::i64, {n}), y = a;
    for (int64_t i = 0; i < n; ++i) a.set(i, {0, i + 1});
    std::vector<Tensor> in{tensor_of(a), tensor_of(a)};
    EXPECT_EQ((*program)->run(in, std::vector{tensor_of(y)}).message(), "");
    for (int64_t i : {int64_t{0}, n / 3, n - 1}) {
      if (n == 0) continue;
      a.set(i, {});
      EXPECT_FALSE((*program)->run(in, std::vector{tensor_of(y)}).ok()) << i << " of " << n;
      a.set(i, {0, i + 1});
      EXPECT_EQ((*program)->run(in, std::vector{tensor_of(y)}).message(), "");
    }
  }
}

// Threads run one program at sizes that need new plans and at sizes that OpenMP parallelizes. Other threads make the same program,
// read its statistics and explain it.
TEST(Run, ManyThreads) {
  auto graph = parse_graph(
      "graph @f(%x: f32[N,M], %b: f32[M]) {\n %s = add(%x, %b)\n %p = softmax(%s){axis=-1}\n"
      " %c = sum(%p){axes=[0]}\n return %p, %c\n}");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  auto program = Program::make(*graph, {}, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  struct Size {
    std::vector<HostTensor> in, expected;
  };
  std::vector<Size> sizes;
  for (int64_t n : {1, 2, 3, 5, 700}) {
    Size size{{random_tensor(DType::f32, {n, 64}, 1), random_tensor(DType::f32, {64}, 2)}, {}};
    auto expected = evaluate(*graph, size.in);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    size.expected = *expected;
    sizes.push_back(std::move(size));
  }
  std::atomic<int> wrong = 0;
  auto work = [&](size_t offset) {
    for (size_t round = 0; round < 20; ++round) {
      Size& size = sizes[(round + offset) % sizes.size()];
      std::vector<HostTensor> outputs = blank_like(size.expected);
      auto own = offset % 2 ? Program::make(*graph, {}, {}) : program;
      if (!own.ok() || !run(**own, size.in, outputs).ok()) ++wrong;
      for (size_t o = 0; o < outputs.size(); ++o)
        for (int64_t i = 0; i < outputs[o].count(); ++i)
          if (std::abs(outputs[o].number(i) - size.expected[o].number(i)) > 1e-4) ++wrong;
      if ((*program)->explain(round % 2).empty() || (*program)->stats().kernels == 0) ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) threads.emplace_back(work, t);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ((*program)->stats().plans.plans, static_cast<int64_t>(sizes.size()));
}

}  // namespace
}  // namespace tenon

// Programs from end to end: text in, tensors out, compared with the evaluator.
#include <atomic>
#include <thread>

#include "tests/run_help.h"

namespace tenon {
namespace {

struct Case {
  const char* name;
  const char* text;
  std::vector<std::vector<int64_t>> shapes;  // of the inputs
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
  std::vector<HostTensor> outputs;
  std::vector<Tensor> in, out;
  for (HostTensor& t : inputs) in.push_back(tensor_of(t));
  for (const HostTensor& e : *expected) {
    outputs.emplace_back(e.dtype, e.shape);
    std::fill(outputs.back().bytes.begin(), outputs.back().bytes.end(), std::byte{0xA5});
  }
  for (HostTensor& t : outputs) out.push_back(tensor_of(t));
  for (int round = 0; round < 2; ++round) {
    Status status = (*program)->run(in, out);
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

TEST(Run, Cases) {
  const Case cases[] = {
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
       {{4, 6}, {9}, {9, 6}}},
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
        %a = argmax(%x){axis=0}
        %c = cumsum(%x){axis=-1}
        %g = gather(%x, %i){axis=0}
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
      {"bf16", "graph @f(%x: bf16[N,M]) {\n %y = softmax(%x){axis=-1}\n return %y\n}", {{3, 50}}},
      {"scalar", "graph @f(%x: f32[], %y: f32[]) {\n %z = add(%x, %y)\n return %z\n}", {{}, {}}},
  };
  for (const Case& c : cases) {
    check(c, {"cpu", "reference"});
    check(c);
  }
}

// Threads run one program at sizes that need new plans and at sizes that OpenMP shares out; others make the same program,
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
      std::vector<HostTensor> outputs;
      std::vector<Tensor> in, out;
      for (HostTensor& t : size.in) in.push_back(tensor_of(t));
      for (const HostTensor& e : size.expected) outputs.emplace_back(e.dtype, e.shape);
      for (HostTensor& t : outputs) out.push_back(tensor_of(t));
      auto own = offset % 2 ? Program::make(*graph, {}, {}) : program;
      if (!own.ok() || !(*own)->run(in, out).ok()) ++wrong;
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

// Products and attention in the oneDNN back end: operands in every layout, each epilogue, integers, groups, frozen weights.
#include "tests/support/onednn_case.h"

namespace tenon {
namespace {

TEST(OneDnn, Matmul) {
  constexpr const char* kEveryOtherColumn = R"(graph @f(%a: f32[N,16], %b: f32[8,M]) {
    %s = slice(%a){axis=1, start=1, end=16, step=2}
    %y = matmul(%s, %b)
    return %y
  })";
  const OneDnnCase cases[] = {
      {"plain",
       "graph @f(%a: f32[N,K], %b: f32[K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{5, 8}, {8, 21}},
       "matmul 5x8x21 f32"},
      {"transposed operands",
       R"(graph @f(%a: f32[K,N], %b: f32[M,K]) {
        %s = transpose(%a){perm=[1,0]}
        %t = transpose(%b){perm=[1,0]}
        %y = matmul(%s, %t)
        return %y
      })",
       {{8, 5}, {21, 8}},
       "matmul 5x8x21 f32"},
      {"rows of a batch",
       "graph @f(%a: f32[A,B,K], %b: f32[K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{3, 5, 8}, {8, 21}},
       "matmul 15x8x21 f32"},
      {"batches",
       "graph @f(%a: f32[A,B,N,K], %b: f32[A,B,K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{2, 3, 5, 8}, {2, 3, 8, 7}},
       "matmul 6x5x8x7 f32"},
      {"heads",
       R"(graph @f(%q: f32[B,S,H,16], %k: f32[B,S,H,16]) {
        %a = transpose(%q){perm=[0,2,1,3]}
        %b = transpose(%k){perm=[0,2,3,1]}
        %y = matmul(%a, %b)
        return %y
      })",
       {{2, 7, 3, 16}, {2, 7, 3, 16}},
       "matmul 2x3x7x16x7 f32"},
      {"broadcast batch",
       "graph @f(%a: f32[A,1,N,K], %b: f32[B,K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{2, 1, 5, 8}, {3, 8, 7}},
       "matmul 2x3x5x8x7 f32"},
      {"row",
       "graph @f(%a: f32[K], %b: f32[K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{8}, {8, 21}},
       "group 0 = cpu"},
      {"column",
       "graph @f(%a: f32[N,K], %b: f32[K]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{5, 8}, {8}},
       "group 0 = cpu"},
      {"dot",
       "graph @f(%a: f32[K], %b: f32[K]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{8}, {8}},
       "group 0 = cpu"},
      {"column of batches",
       "graph @f(%a: f32[A,N,K], %b: f32[K]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{2, 5, 8}, {8}},
       "group 0 = cpu"},
      {"row of batches",
       "graph @f(%a: f32[K], %b: f32[A,K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{8}, {2, 8, 5}},
       "matmul 2x1x8x5 f32"},
      {"every other column", kEveryOtherColumn, {{5, 16}, {8, 21}}, "matmul 5x8x21 f32"},
      {"every other column is stored first", kEveryOtherColumn, {{5, 16}, {8, 21}}, "step 0 (cpu): slice"},
      {"a flipped factor is stored first",
       R"(graph @f(%a: f32[N,8], %b: f32[8,M]) {
        %s = flip(%b){axes=[1]}
        %y = matmul(%a, %s)
        return %y
      })",
       {{5, 8}, {8, 21}},
       "step 0 (cpu): flip"},
      {"flipped and repeated",
       R"(graph @f(%a: f32[N,8], %b: f32[8,1]) {
        %s = flip(%a){axes=[1]}
        %t = expand(%b){shape=[8,6]}
        %y = matmul(%s, %t)
        return %y
      })",
       {{5, 8}, {8, 1}},
       "matmul 5x8x6 f32"},
      {"no rows",
       "graph @f(%a: f32[N,K], %b: f32[K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{0, 8}, {8, 21}},
       "matmul"},
      {"nothing to sum",
       R"(graph @f(%a: f32[N,K], %b: f32[K,M], %c: f32[M]) {
        %s = matmul(%a, %b)
        %y = add(%s, %c)
        return %y
      })",
       {{5, 0}, {0, 21}, {21}},
       "matmul"},
      {"ones",
       "graph @f(%a: f32[N,K], %b: f32[K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{1, 1}, {1, 1}},
       "matmul 1x1x1 f32"},
      {"bf16, by the library where it is fast",
       "graph @f(%a: bf16[N,K], %b: bf16[K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{5, 8}, {8, 21}},
       "step"},
      {"f16, by the library where it is fast",
       "graph @f(%a: f16[N,K], %b: f16[K,M]) {\n %y = matmul(%a, %b)\n return %y\n}",
       {{5, 8}, {8, 21}},
       "step"},
      {"linear",
       "graph @f(%a: f32[A,B,K], %w: f32[M,K], %c: f32[M]) {\n %y = linear(%a, %w, %c)\n return %y\n}",
       {{2, 5, 8}, {21, 8}, {21}},
       "linear 10x8x21 f32"},
  };
  for (const OneDnnCase& c : cases) check(c);
}

TEST(OneDnn, ProductsOfIntegers) {
  const OneDnnCase cases[] = {
      {"plain",
       "graph @f(%a: i8[N,8], %b: i8[8,M]) {\n %y = int_matmul(%a, %b)\n return %y\n}",
       {{5, 8}, {8, 21}},
       "int_matmul 5x8x21 i32"},
      {"unsigned and transposed",
       R"(graph @f(%a: u8[N,K], %b: i8[M,K]) {
        %t = transpose(%b){perm=[1,0]}
        %y = int_matmul(%a, %t)
        return %y
      })",
       {{5, 8}, {21, 8}},
       "int_matmul 5x8x21 i32"},
      {"batches",
       "graph @f(%a: i8[A,B,N,8], %b: i8[A,1,8,M]) {\n %y = int_matmul(%a, %b)\n return %y\n}",
       {{2, 3, 5, 8}, {2, 1, 8, 7}},
       "int_matmul 2x15x8x7 i32"},
      {"sums that f32 may not hold, as those of unsigned integers",
       "graph @f(%a: i8[A,N,K], %b: i8[A,K,M]) {\n %y = int_matmul(%a, %b)\n return %y\n}",
       {{2, 5, 2000}, {2, 2000, 7}},
       "int_matmul 2x5x2000x7 i32"},
      {"a vector, as unsigned integers",
       "graph @f(%a: i8[K], %b: i8[A,K,M]) {\n %y = int_matmul(%a, %b)\n return %y\n}",
       {{2000}, {2, 2000, 7}},
       "i32"},
      {"by a vector, as unsigned integers",
       "graph @f(%a: i8[A,N,K], %b: i8[K]) {\n %y = int_matmul(%a, %b)\n return %y\n}",
       {{2, 5, 2000}, {2000}},
       "i32"},
      {"scales, bias and relu",
       R"(graph @f(%a: i8[N,8], %b: i8[8,M], %s: f32[M], %c: f32[M]) {
        %p = int_matmul(%a, %b)
        %f = cast(%p){dtype=f32}
        %u = mul(%f, %s)
        %v = add(%u, %c)
        %y = relu(%v)
        return %y
      })",
       {{5, 8}, {8, 21}, {21}, {21}},
       "post-ops: mul add relu"},
      {"frozen",
       "graph @f(%a: i8[N,16], %b: i8[16,32]) {\n %y = int_matmul(%a, %b)\n return %y\n}",
       {{5, 16}, {16, 32}},
       "int_matmul 5x16x32 i32",
       {1}},
      {"integers behind it are loops'",
       R"(graph @f(%a: i8[N,8], %b: i8[8,M], %c: i32[M]) {
        %p = int_matmul(%a, %b)
        %y = add(%p, %c)
        return %y
      })",
       {{5, 8}, {8, 21}, {21}},
       "kernel"},
  };
  for (const OneDnnCase& c : cases) check(c);
}

TEST(OneDnn, ProductsOfGroups) {
  const OneDnnCase cases[] = {
      {"plain",
       "graph @f(%a: f32[N,8], %e: i64[G], %b: f32[G,8,M]) {\n %y = grouped_matmul(%a, %e, %b)\n return "
       "%y\n}",
       {{7, 8}, {3}, {3, 8, 21}},
       "grouped_matmul"},
      {"views",
       R"(graph @f(%a: bf16[K,N], %e: i32[9], %b: bf16[4,M,K]) {
        %s = slice(%e){axis=0, start=1, end=9, step=2}
        %t = transpose(%a){perm=[1,0]}
        %u = transpose(%b){perm=[0,2,1]}
        %y = grouped_matmul(%t, %s, %u)
        return %y
      })",
       {{8, 13}, {9}, {4, 21, 8}},
       "grouped_matmul"},
      {"frozen matrices",
       "graph @f(%a: f32[N,8], %e: i64[2], %b: f32[2,8,16]) {\n %y = grouped_matmul(%a, %e, %b)\n return "
       "%y\n}",
       {{9, 8}, {2}, {2, 8, 16}},
       "grouped_matmul",
       {2}},
      {"nothing to sum",
       "graph @f(%a: f32[N,K], %e: i64[G], %b: f32[G,K,M]) {\n %y = grouped_matmul(%a, %e, %b)\n return "
       "%y\n}",
       {{7, 0}, {3}, {3, 0, 21}},
       "grouped_matmul"},
  };
  for (const OneDnnCase& c : cases) check(c);
}

TEST(OneDnn, SumsOfGroups) {
  const std::string plain =
      "graph @f(%a: f32[N,K], %e: i64[G], %b: f32[N,M]) {\n %y = grouped_outer(%a, %e, %b)\n return %y\n}";
  const OneDnnCase cases[] = {
      {"plain", plain.c_str(), {{70, 8}, {3}, {70, 21}}, "grouped_outer"},
      {"many groups of few rows", plain.c_str(), {{5, 8}, {40}, {5, 21}}, "grouped_outer"},
      {"views",
       R"(graph @f(%a: bf16[K,13], %e: i32[9], %b: bf16[20,M]) {
        %s = slice(%e){axis=0, start=1, end=9, step=2}
        %t = transpose(%a){perm=[1,0]}
        %u = slice(%b){axis=0, start=7, end=20}
        %y = grouped_outer(%t, %s, %u)
        return %y
      })",
       {{8, 13}, {9}, {20, 21}},
       "grouped_outer"},
      {"a permuted result",
       R"(graph @f(%a: f16[N,8], %e: i64[3], %b: f16[N,24]) {
        %y = grouped_outer(%a, %e, %b)
        %t = transpose(%y){perm=[0,2,1]}
        return %t
      })",
       {{9, 8}, {3}, {9, 24}},
       "grouped_outer"},
      {"no rows", plain.c_str(), {{0, 8}, {3}, {0, 21}}, "grouped_outer"},
      {"no elements", plain.c_str(), {{7, 0}, {3}, {7, 21}}, "grouped_outer"},
  };
  for (const OneDnnCase& c : cases) check(c);
}

TEST(OneDnn, Epilogues) {
  const std::string activations[] = {
      "relu(%s)",      "gelu(%s)", "gelu(%s){approximate=\"tanh\"}", "silu(%s)",
      "hardswish(%s)", "mish(%s)", "leaky_relu(%s){slope=0.1}",      "tanh(%s)",
      "neg(%s)",       "abs(%s)"};
  for (const std::string& a : activations) {
    const std::string text =
        "graph @f(%a: f32[A,B,K], %w: f32[M,K], %c: f32[M]) {\n %s = linear(%a, %w, %c)\n %y = " + a +
        "\n return %y\n}";
    const std::string shows = "post-ops: bias " + a.substr(0, a.find('('));
    check({a.c_str(), text.c_str(), {{2, 5, 8}, {21, 8}, {21}}, shows.c_str()});
  }
  const OneDnnCase cases[] = {
      {"bias, number, residual, relu",
       R"(graph @f(%a: f32[N,K], %b: f32[K,M], %c: f32[M], %r: f32[N,M]) {
        %half = full(){value=0.5, shape=[], dtype=f32}
        %s = matmul(%a, %b)
        %t = add(%c, %s)
        %u = mul(%t, %half)
        %v = add(%u, %r)
        %y = relu(%v)
        return %y
      })",
       {{5, 8}, {8, 21}, {21}, {5, 21}},
       "post-ops: bias mul add relu"},
      {"the minimum of relu and a number",
       R"(graph @f(%a: f32[N,K], %b: f32[K,M]) {
        %most = full(){value=0.25, shape=[], dtype=f32}
        %s = matmul(%a, %b)
        %r = relu(%s)
        %y = minimum(%most, %r)
        return %y
      })",
       {{5, 8}, {8, 21}},
       "post-ops: relu minimum"},
      {"column operand, fused where the library is fast at it",
       R"(graph @f(%a: f32[N,K], %b: f32[K,M], %c: f32[N,1]) {
        %s = matmul(%a, %b)
        %t = mul(%s, %c)
        %y = sub(%t, %c)
        return %y
      })",
       {{5, 8}, {8, 21}, {5, 1}},
       "matmul 5x8x21 f32"},
      {"operand per batch, fused where the library is fast at it",
       R"(graph @f(%a: f32[A,N,K], %b: f32[A,K,M], %c: f32[A,1,1]) {
        %s = matmul(%a, %b)
        %t = div(%s, %c)
        return %t
      })",
       {{3, 5, 8}, {3, 8, 21}, {3, 1, 1}},
       "matmul 3x5x8x21 f32"},
      {"one operand",
       R"(graph @f(%a: f32[N,K], %b: f32[K,M], %c: f32[]) {
        %s = matmul(%a, %b)
        %t = add(%s, %c)
        return %t
      })",
       {{5, 8}, {8, 21}, {}},
       "post-ops: add"},
      {"transposed residual",
       R"(graph @f(%a: f32[N,K], %b: f32[K,M], %c: f32[M,N]) {
        %s = matmul(%a, %b)
        %r = transpose(%c){perm=[1,0]}
        %t = add(%s, %r)
        return %t
      })",
       {{5, 8}, {8, 21}, {21, 5}},
       "post-ops: add"},
      {"read twice: no epilogue, its activation expands",
       R"(graph @f(%a: f32[N,K], %b: f32[K,M]) {
        %s = matmul(%a, %b)
        %y = gelu(%s)
        return %y, %s
      })",
       {{5, 8}, {8, 21}},
       "matmul 5x8x21 f32"},
      {"result of one is operand of the other",
       R"(graph @f(%a: f32[N,K], %b: f32[K,M], %c: f32[K,M]) {
        %s = matmul(%a, %b)
        %t = matmul(%a, %c)
        %u = add(%s, %t)
        %y = relu(%u)
        return %y
      })",
       {{5, 8}, {8, 21}, {8, 21}},
       "post-ops: add relu"},
      {"packed weights",
       R"(graph @f(%a: f32[N,K], %w: f32[M,K] param, %c: f32[M] param) {
        %s = linear(%a, %w, %c)
        %y = gelu(%s)
        return %y
      })",
       {{128, 64}, {96, 64}, {96}},
       "post-ops: bias gelu",
       {1, 2}},
  };
  for (const OneDnnCase& c : cases) check(c);
}

// Post-ops of a 16-bit product are computed in f32, so casts to f32 and back join it where the library is fast at such products.
TEST(OneDnn, CastsBehindProducts) {
  const bool fast = __builtin_cpu_supports("avx512bf16");
  const auto text = [](const std::string& body) {
    return "graph @f(%a: bf16[N,K], %b: bf16[K,M], %c: bf16[M], %s: f32[], %d: f32[M]) {\n"
           "%p = matmul(%a, %b)\n%w = cast(%p){dtype=f32}\n%t = mul(%w, %s)\n" +
           body + "}";
  };
  const std::vector<std::vector<int64_t>> shapes = {{9, 40}, {40, 21}, {21}, {}, {21}};
  const auto expect = [&](const char* name, const std::string& body, const char* shows) {
    check({name, text(body).c_str(), shapes, fast ? shows : "step"});
  };
  expect("cast back", "%u = add(%t, %d)\n%y = cast(%u){dtype=bf16}\nreturn %y\n", "post-ops: mul add");
  expect("an operand of 16 bits behind the cast back",
         "%u = cast(%t){dtype=bf16}\n%v = add(%u, %c)\n%y = relu(%v)\nreturn %y\n", "post-ops: mul add relu");
  expect("a result of f32 stays with loops", "return %t\n", "ends here because it changes the dtype");
  expect("other nodes read the value of f32",
         "%u = add(%t, %d)\n%y = cast(%u){dtype=bf16}\n%z = exp(%t)\nreturn %y, %z\n",
         "ends here because it changes the dtype");
  expect("a function that the library lacks", "%u = exp(%t)\n%y = cast(%u){dtype=bf16}\nreturn %y\n",
         "ends here because exp");
}

// Products with frozen weights, in the form that the library takes.
TEST(OneDnn, FrozenWeights) {
  const char* text =
      R"(graph @f(%a: f32[N,24], %w: f32[M,24] param, %b: f32[M] param, %r: f32[N,M], %c: f32[M]) {
    %s = linear(%a, %w, %b)
    %x = mul(%s, %c)
    %y = add(%x, %r)
    %z = relu(%y)
    return %z
  })";
  for (int64_t rows : {1, 2, 13, 64})
    for (int64_t columns : {1, 8, 37, 96}) {
      SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(columns) + " columns");
      check({"rows",
             text,
             {{rows, 24}, {columns, 24}, {columns}, {rows, columns}, {columns}},
             "post-ops: bias mul add relu",
             {1, 2}});
    }
  check({"a part of wider rows",
         R"(graph @f(%a: f32[N,40], %w: f32[16,32] param) {
        %s = slice(%a){axis=1, start=3, end=19}
        %y = matmul(%s, %w)
        return %y
      })",
         {{9, 40}, {16, 32}},
         "matmul 9x16x32 f32",
         {1}});
  check({"columns of the source",
         R"(graph @f(%a: f32[K,N], %w: f32[K,32] param) {
        %s = transpose(%a){perm=[1,0]}
        %y = matmul(%s, %w)
        return %y
      })",
         {{16, 9}, {16, 32}},
         "matmul 9x16x32 f32",
         {1}});
}

// Attention is fast whichever axes have size 1: the library sees no batch in a batch of one, and masks are broadcast along other axes
// then.
TEST(OneDnn, AttentionOfAnySizeIsFast) {
  for (const char* mask : {"1,1,N,N", "B,1,N,N", "B,1,1,N", "1,3,N,N", "B,3,N,N", "N,N"}) {
    const std::string text = std::string(
                                 "graph @f(%q: f32[B,N,3,16], %k: f32[B,N,3,16], %v: f32[B,N,3,16], "
                                 "%m: f32[") +
                             mask + R"(]) {
      %a = transpose(%q){perm=[0,2,1,3]}
      %b = transpose(%k){perm=[0,2,1,3]}
      %c = transpose(%v){perm=[0,2,1,3]}
      %y = attention(%a, %b, %c, %m){scale=0.25}
      return %y
    })";
    auto graph = parse_graph(text);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    auto program = Program::make(*graph, {}, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    for (int64_t b : {2, 1, 3})
      for (int64_t n : {17, 2, 1}) {
        SCOPED_TRACE(std::string(mask) + ": B=" + std::to_string(b) + " N=" + std::to_string(n));
        std::vector<int64_t> shape;
        for (const char* c = mask; *c; c += c[1] ? 2 : 1)
          shape.push_back(*c == 'B' ? b : *c == 'N' ? n : *c - '0');
        std::vector<HostTensor> inputs;
        for (uint32_t i = 0; i < 3; ++i) inputs.push_back(random_tensor(DType::f32, {b, n, 3, 16}, i));
        inputs.push_back(random_tensor(DType::f32, shape, 3));
        auto expected = evaluate(*graph, inputs);
        ASSERT_TRUE(expected.ok()) << expected.status().message();
        HostTensor y(DType::f32, {b, 3, n, 16});
        std::vector<Tensor> in;
        for (HostTensor& t : inputs) in.push_back(tensor_of(t));
        const std::vector<Tensor> out{tensor_of(y)};
        Status status = (*program)->run(in, out);
        ASSERT_TRUE(status.ok()) << status.message();
        for (int64_t i = 0; i < y.count(); ++i) ASSERT_NEAR(y.number(i), (*expected)[0].number(i), 3e-5) << i;
        const std::string shown = (*program)->explain(false);
        for (const char* end : {"\n", ","})  // a refusal has more text behind it
          EXPECT_EQ(shown.find(std::string(" f32 ref:any") + end), std::string::npos) << shown;
      }
  }
}

}  // namespace
}  // namespace tenon

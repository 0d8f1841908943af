// Programs with products of matrices, without a GPU. cuBLASLt is its mock (cublaslt_mock.cc), which checks its arguments and computes
// in double; kernels run on the mock driver. Covers results, epilogues, plans of several sizes, unaligned tensors, batches,
// threads, the failure of every call of the library, and a missing library.
#include "tests/support/nvidia/cublaslt_help.h"
#include "tests/support/paths.h"

namespace tenon {
namespace {

using testing::HasSubstr;
using Lines = std::vector<std::string>;

constexpr const char* kFunctions[] = {
#define X(name, ...) #name,
    TENON_CUBLASLT_FUNCTIONS(X)
#undef X
};

TEST_F(CublasLt, EpilogueAndLoopsBehind) {
  for (const char* type : {"f32", "bf16", "f16"}) {
    SCOPED_TRACE(type);
    lt().reset();
    const Graph graph = parsed(typed(kMlp, type));
    const auto program = make(graph);
    EXPECT_THAT(program->explain(false),
                testing::ContainsRegex(
                    "step 0 .cublaslt.: matmul add gelu\n(  ends here.*\n)?  cublasLtMatmul bias gelu\n"));
    check(*program, graph, {4, 5, 3});
    EXPECT_THAT(program->explain(false),
                HasSubstr("cublasLtMatmul 4x3x5 " + std::string(type) + ", bias gelu\n"));
    EXPECT_THAT(program->explain(false), HasSubstr("step 1 (cuda):"));
    EXPECT_EQ(products(),
              Lines{std::string(type) + " NN 3x4x5 ld 3 5 3 3 epilogue 36 alpha 1 beta 0 stream 7"});
  }
}

TEST_F(CublasLt, SixteenBitsAreSummedInThirtyTwo) {
  check(typed(kMlp, "bf16"), {4, 5, 3});
  EXPECT_THAT(lt().log(), HasSubstr("reduction 2"));
  check(typed(kMlp, "f32"), {4, 5, 3});
  EXPECT_THAT(lt().log(), HasSubstr("reduction 7"));
}

TEST_F(CublasLt, DoublePrecision) {
  check(
      "graph @f(%x: f64[4,5], %w: f64[5,3], %c: f64[4,3]) {\n %m = matmul(%x, %w)\n %s = add(%m, %c)\n %r = "
      "relu(%s)\n return %r\n}");
  EXPECT_EQ(products(), Lines{"f64 NN 3x4x5 ld 3 5 3 3 alpha 1 beta 1 stream 7"});
}

// TF32 is used if the graph allows it, and makes another problem than f32.
TEST_F(CublasLt, Tf32) {
  std::string text = kMlp;
  text.replace(text.find("%w)"), 3, "%w){tf32=true}");
  check(typed(text, "f32"), {4, 5, 3});
  check(typed(kMlp, "f32"), {4, 5, 3});
  check(typed(text, "bf16"), {4, 5, 3});
  check(
      "graph @f(%x: f32[4,5], %w: f32[3,5], %b: f32[3]) {\n %l = linear(%x, %w, %b){tf32=true}\n return "
      "%l\n}");
  EXPECT_EQ(products(), (Lines{"f32 tf32 NN 3x4x5 ld 3 5 3 3 epilogue 36 alpha 1 beta 0 stream 7",
                               "f32 NN 3x4x5 ld 3 5 3 3 epilogue 36 alpha 1 beta 0 stream 7",
                               "bf16 NN 3x4x5 ld 3 5 3 3 epilogue 36 alpha 1 beta 0 stream 7",
                               "f32 tf32 TN 3x4x5 ld 5 5 3 3 epilogue 4 alpha 1 beta 0 stream 7"}));
  EXPECT_EQ(lt().calls("cublasLtMatmulAlgoGetHeuristic"), 4);
}

TEST_F(CublasLt, SeveralSizes) {
  const Graph graph = parsed(typed(kMlp, "f32"));
  const auto program = make(graph);
  for (const auto& symbols : std::vector<std::vector<int64_t>>{{4, 5, 3},
                                                               {1, 5, 3},
                                                               {4, 1, 3},
                                                               {4, 5, 1},
                                                               {1, 1, 1},
                                                               {0, 5, 3},
                                                               {4, 5, 0},
                                                               {17, 33, 65},
                                                               {4, 5, 3}}) {
    SCOPED_TRACE(testing::PrintToString(symbols));
    check(*program, graph, symbols);
  }
  EXPECT_EQ(lt().calls("cublasLtMatmul"), 7);  // empty results cause no call
  EXPECT_EQ(lt().calls("cublasLtMatmulAlgoGetHeuristic"), 6);
}

// An empty sum is zero, and the epilogue applies to it.
TEST_F(CublasLt, NothingToSum) {
  const std::string residual = R"(graph @f(%x: T[N,K], %w: T[K,M], %b: T[M], %c: T[N,M]) {
  %h = matmul(%x, %w)
  %s = add(%h, %b)
  %a = add(%s, %c)
  return %a
})";
  for (const char* type : {"f32", "bf16"}) {
    const Graph graph = parsed(typed(residual, type));
    const auto program = make(graph);
    check(*program, graph, {4, 0, 3});
    check(*program, graph, {4, 5, 3});
    check(*program, graph, {4, 0, 3});
  }
  check("graph @f(%x: f32[6,4,0], %w: f32[6,0,3]) {\n %m = matmul(%x, %w)\n return %m\n}");
  check("graph @f(%x: f32[0], %w: f32[0]) {\n %m = matmul(%x, %w)\n return %m\n}");
}

TEST_F(CublasLt, OperandsAreReadInPlace) {
  check(R"(graph @f(%x: f32[5,4], %w: f32[3,5]) {
  %xt = transpose(%x){perm=[1,0]}
  %wt = transpose(%w){perm=[1,0]}
  %m = matmul(%xt, %wt)
  return %m
})");
  EXPECT_EQ(products(), Lines{"f32 TT 3x4x5 ld 5 4 3 3 alpha 1 beta 0 stream 7"});
  check(R"(graph @f(%x: f32[4,10], %w: f32[9,3]) {
  %xs = slice(%x){axis=1, start=2, end=7}
  %ws = slice(%w){axis=0, start=4, end=9}
  %m = matmul(%xs, %ws)
  return %m
})");
  // The result of a loop, through a view.
  check(R"(graph @f(%x: bf16[5,4], %w: bf16[5,3]) {
  %e = tanh(%x)
  %t = transpose(%e){perm=[1,0]}
  %m = matmul(%t, %w)
  %y = exp(%m)
  return %y
})");
}

// Views whose strides the library does not take are copied first.
TEST_F(CublasLt, OtherViewsAreStored) {
  for (const char* view :
       {"%v = slice(%x){axis=1, end=10, step=2}", "%v = flip(%y){axes=[1]}", "%v = expand(%r){shape=[4,5]}",
        "%t = transpose(%x){perm=[1,0]}\n %s = slice(%t){axis=0, end=10, "
        "step=2}\n %v = transpose(%s){perm=[1,0]}"}) {
    SCOPED_TRACE(view);
    lt().reset();
    check("graph @f(%x: f32[4,10], %y: f32[4,5], %r: f32[1,5], %z: f32[3,5], %b: f32[3]) {\n " +
          std::string(view) + "\n %m = linear(%v, %z, %b)\n %g = relu(%m)\n return %g\n}");
    EXPECT_EQ(lt().calls("cublasLtMatmul"), 1);
  }
}

TEST_F(CublasLt, Linear) {
  const Graph graph = parsed(
      "graph @f(%x: bf16[B,T,5], %w: bf16[3,5], %b: bf16[3]) {\n %l = linear(%x, %w, %b)\n %r = relu(%l)\n "
      "return "
      "%r\n}");
  const auto program = make(graph);
  check(*program, graph, {2, 7});
  EXPECT_EQ(products(), Lines{"bf16 TN 3x14x5 ld 5 5 3 3 epilogue 6 alpha 1 beta 0 stream 7"});
  check(
      "graph @f(%x: f32[5], %w: f32[3,5], %c: f32[3]) {\n %l = linear(%x, %w)\n %s = sub(%l, %c)\n return "
      "%s\n}");
  // Loops add a bias of f64.
  check("graph @f(%x: f64[4,5], %w: f64[3,5], %b: f64[3]) {\n %l = linear(%x, %w, %b)\n return %l\n}");
}

TEST_F(CublasLt, Batches) {
  const std::string text = "graph @f(%x: f32[X,N,5], %w: f32[W,5,3]) {\n %m = matmul(%x, %w)\n return %m\n}";
  auto sized = [&](const std::string& x, const std::string& w) {
    std::string t = text;
    t.replace(t.find('X'), 1, x);
    t.replace(t.find('W'), 1, w);
    return t;
  };
  check(sized("B", "B"), {6, 4});
  check(sized("6", "1"), {4});
  check(sized("1", "6"), {4});
  check("graph @f(%x: f32[2,1,4,5], %w: f32[3,5,3]) {\n %m = matmul(%x, %w)\n return %m\n}");
  EXPECT_EQ(products(), (Lines{"f32 NN 3x4x5 ld 3 5 3 3 batch 6 by 15 20 12 12 alpha 1 beta 0 stream 7",
                               "f32 NN 3x24x5 ld 3 5 3 3 alpha 1 beta 0 stream 7",
                               "f32 NN 3x4x5 ld 3 5 3 3 batch 6 by 15 0 12 12 alpha 1 beta 0 stream 7",
                               "f32 NN 3x4x5 ld 3 5 3 3 batch 3 by 15 0 12 12 alpha 1 beta 0 stream 7",
                               "f32 NN 3x4x5 ld 3 5 3 3 batch 3 by 15 0 12 12 alpha 1 beta 0 stream 7"}));
}

TEST_F(CublasLt, Attention) {
  const std::string text = R"(graph @f(%q: T[B,L,2,8], %k: T[B,S,2,8], %v: T[B,S,2,8]) {
  %qh = transpose(%q){perm=[0,2,1,3]}
  %kh = transpose(%k){perm=[0,2,1,3]}
  %vh = transpose(%v){perm=[0,2,1,3]}
  %y = attention(%qh, %kh, %vh){causal=true, scale=0.35}
  return %y
})";
  for (const char* type : {"f32", "bf16"}) {
    const Graph graph = parsed(typed(text, type));
    const auto program = make(graph);
    check(*program, graph, {3, 5, 7});
    check(*program, graph, {1, 1, 7});
  }
  EXPECT_GE(lt().calls("cublasLtMatmul"), 8);
}

TEST_F(CublasLt, Residual) {
  const std::string text = R"(graph @f(%x: T[4,5], %w: T[5,3], %c: T[4,3]) {
  %m = matmul(%x, %w)
  %s = sub(%m, %c)
  return %s
})";
  check(typed(text, "f32"));
  check(typed(text, "f16"));
  EXPECT_EQ(products()[0], "f32 NN 3x4x5 ld 3 5 3 3 alpha 1 beta -1 stream 7");
  // The added tensor is the result of a loop.
  check(R"(graph @f(%x: f32[4,5], %w: f32[5,3], %c: f32[4,3]) {
  %e = exp(%c)
  %m = matmul(%x, %w)
  %s = add(%e, %m)
  %r = relu(%s)
  %y = sum(%r){axes=[1]}
  return %y
})");
  EXPECT_THAT(products().back(), HasSubstr("epilogue 2 alpha 1 beta 1"));
  // The added tensor is the result of another product.
  check(R"(graph @f(%x: f32[4,5], %w: f32[5,3], %v: f32[5,3]) {
  %m = matmul(%x, %w)
  %n = matmul(%x, %v)
  %s = add(%m, %n)
  %g = gelu(%s){approximate="tanh"}
  return %g
})");
  EXPECT_THAT(products().back(), HasSubstr("epilogue 32 alpha 1 beta 1"));
}

// The added tensor shares the result's buffer if the product has no other operand in it.
TEST_F(CublasLt, InPlace) {
  lt().set("workspace", 0);
  const std::string text = R"(graph @f(%x: f32[16,16], %w: f32[16,16]) {
  %p = matmul(%x, %w)
  %e = relu(%p)
  %l = matmul(%w, %x)
  %m = matmul(%l, %x)
  %s = add(%m, %e)
  %y = matmul(%s, %w)
  return %y
})";
  const Graph graph = parsed(text);
  const auto program = make(graph);
  check(*program, graph, {});
  EXPECT_LT(program->stats().workspace_bytes, 2 * 16 * 16 * 4 + 512);
  std::string twice = text;
  twice.replace(twice.find("matmul(%l, %x)"), 14, "matmul(%e, %x)");
  twice.replace(twice.find("  %l ="), twice.find("  %m =") - twice.find("  %l ="), "");
  check(twice);
}

TEST_F(CublasLt, ScaleIsAlpha) {
  check(
      "graph @f(%x: f32[4,5], %w: f32[5,3]) {\n %m = matmul(%x, %w)\n %h = full(){value=-0.25, dtype=f32, "
      "shape=[]}\n %s = mul(%h, %m)\n return %s\n}");
  EXPECT_THAT(products().back(), HasSubstr("alpha -0.25 beta 0"));
}

// Epilogues that are not taken run as loops.
TEST_F(CublasLt, OthersRunAsLoops) {
  for (const char* lines : {"%y = gelu(%m)", "%y = silu(%m)", "%y = maximum(%m, %c)",
                            "%r = relu(%m)\n %y = add(%r, %c)", "%r = relu(%m)\n %y = add(%r, %m)"}) {
    SCOPED_TRACE(lines);
    check("graph @f(%x: f32[4,5], %w: f32[5,3], %c: f32[4,3]) {\n %m = matmul(%x, %w)\n " +
          std::string(lines) + "\n return %y\n}");
  }
  check("graph @f(%x: f32[4,5]) {\n %y = relu(%x)\n return %y\n}");
  EXPECT_EQ(lt().calls("cublasLtMatmul"), 5);
}

TEST_F(CublasLt, ProductsItHasNot) {
  const auto program = Program::make(
      parsed("graph @f(%x: i32[4,5], %w: i32[5,3]) {\n %m = matmul(%x, %w)\n return %m\n}"), options, {});
  EXPECT_EQ(program.status().code(), Code::unsupported);
  EXPECT_THAT(program.status().message(), HasSubstr("cublaslt: cuBLASLt is not used for i32"));
}

TEST_F(CublasLt, ResultsWithStrides) {
  check("graph @f(%x: f32[4,5], %w: f32[5,3]) {\n %m = matmul(%x, %w)\n return %m strides=[3,1]\n}");
  const Graph graph = parsed(
      "graph @f(%x: f32[4,5], %w: f32[5,3]) {\n %m = matmul(%x, %w)\n %r = relu(%m)\n return %r "
      "strides=[1,4]\n}");
  const auto program = make(graph);
  std::vector<HostTensor> inputs = inputs_of(graph, {});
  const auto expected = evaluate(graph, inputs);
  HostTensor got(DType::f32, {4, 3});
  OnDevice x(memory(), inputs[0]), w(memory(), inputs[1]), y(memory(), got);
  Tensor out = y.tensor();
  const std::vector<int64_t> by_columns{1, 4};
  out.strides = by_columns;
  const Status status =
      program->run(std::vector<Tensor>{x.tensor(), w.tensor()}, std::vector<Tensor>{out}, kStream);
  ASSERT_TRUE(status.ok()) << status.message();
  const HostTensor columns = y.read();
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 3; ++j)
      EXPECT_NEAR(columns.number(i + 4 * j), (*expected)[0].number(i * 3 + j), 3e-5);
  EXPECT_EQ(products().back(), "f32 TT 4x3x5 ld 5 3 4 4 epilogue 2 alpha 1 beta 0 stream 7");
}

TEST_F(CublasLt, AlignmentOfPointers) {
  const Graph graph = parsed(typed(kMlp, "bf16"));
  const auto program = make(graph);
  for (int64_t shift : {0, 8, 4, 2, 32, 2, 4, 8}) check(*program, graph, {4, 8, 16}, shift);
  std::vector<std::string> asked;
  for (const std::string& line : lines())
    if (const size_t at = line.find("aligned "); at != line.npos)
      asked.push_back(line.substr(at + 8, line.find(' ', at + 8) - at - 8));
  EXPECT_EQ(asked, (Lines{"16", "8", "4", "2"}));
}

TEST_F(CublasLt, ChoicesAreShared) {
  const Graph graph = parsed(typed(kMlp, "f32"));
  const auto first = make(graph), second = make(graph);
  check(*first, graph, {4, 5, 3});
  check(*second, graph, {4, 5, 3});
  EXPECT_EQ(lt().calls("cublasLtMatmulAlgoGetHeuristic"), 1);
  EXPECT_EQ(lt().calls("cublasLtCreate"), 1);
}

TEST_F(CublasLt, Workspace) {
  const Graph graph = parsed(typed(kMlp, "f32"));
  for (int bytes : {0, 1, 4096, 40 << 20}) {
    lt().set("workspace", bytes);
    library::kept_algorithms<cublaslt::Algorithm>().clear();
    const auto program = make(graph);
    check(*program, graph, {4, 5, 3});
    check(*program, graph, {4, 0, 3});
    EXPECT_GE(program->stats().workspace_bytes, std::min(bytes, 32 << 20));
    EXPECT_LT(program->stats().workspace_bytes, std::min(bytes, 32 << 20) + 2048);
  }
}

TEST_F(CublasLt, NoEpilogueForBatches) {
  const std::string text = R"(graph @f(%x: f32[B,4,5], %w: f32[B,5,3], %b: f32[3]) {
  %m = matmul(%x, %w)
  %s = add(%m, %b)
  %r = relu(%s)
  return %r
})";
  check(text, {6});
  EXPECT_EQ(lt().calls("cublasLtMatmul"), 1);
  lt().set("batched", 0);
  library::kept_algorithms<cublaslt::Algorithm>().clear();
  check(text, {6});
  EXPECT_EQ(lt().calls("cublasLtMatmul"), 7);
}

TEST_F(CublasLt, NoAlgorithm) {
  lt().set("aligned", 32);
  const Graph graph = parsed(typed(kMlp, "f32"));
  auto program = make(graph);
  const auto refused = [&](int64_t rows, int64_t shift, const std::string& alignment) {
    std::vector<HostTensor> got{HostTensor(DType::f32, {rows, 3})};
    const Status status = run(*program, inputs_of(graph, {rows, 5, 3}), got, shift);
    EXPECT_EQ(status.code(), Code::unsupported);
    EXPECT_EQ(status.message(), "cuBLASLt has no algorithm for " + std::to_string(rows) +
                                    "x3x5 f32, bias gelu of tensors aligned to " + alignment + " bytes");
    return lt().calls("cublasLtMatmulAlgoGetHeuristic");
  };
  // The library is asked once for each size.
  EXPECT_EQ(refused(4, 0, "16"), 1);
  EXPECT_EQ(refused(4, 0, "16"), 1);
  EXPECT_EQ(refused(2, 0, "16"), 2);
  EXPECT_EQ(refused(4, 0, "16"), 2);
  EXPECT_EQ(program->stats().plans.refusals, 2);
  // There is an algorithm only for aligned tensors.
  lt().set("aligned", 16);
  program = make(graph);
  check(*program, graph, {4, 5, 3});
  EXPECT_EQ(refused(4, 4, "4"), 4);
  EXPECT_EQ(refused(4, 4, "4"), 4);
  check(*program, graph, {4, 5, 3});
  EXPECT_EQ(program->stats().plans.refusals, 0);
}

// Errors that do not depend on the sizes may pass, so they are not remembered.
TEST_F(CublasLt, FailuresAreNotRemembered) {
  const Graph graph = parsed(typed(kMlp, "f32"));
  std::vector<HostTensor> got{HostTensor(DType::f32, {4, 3})};
  for (const auto& [status, code] : {std::pair{cublaslt::kLtAllocFailed, Code::environment},
                                     {cublaslt::kLtInternalError, Code::environment},
                                     {cublaslt::kLtNotInitialized, Code::environment},
                                     {cublaslt::kLtExecutionFailed, Code::environment},
                                     {cublaslt::kLtNotSupported, Code::unsupported},
                                     {cublaslt::kLtArchMismatch, Code::unsupported}}) {
    SCOPED_TRACE(status);
    const auto program = make(graph);
    library::kept_algorithms<cublaslt::Algorithm>().clear();
    lt().fail("cublasLtMatmulAlgoGetHeuristic", 1, status);
    EXPECT_EQ(run(*program, inputs_of(graph, {4, 5, 3}), got).code(), code);
    EXPECT_EQ(run(*program, inputs_of(graph, {4, 5, 3}), got).code(),
              code == Code::environment ? Code::ok : code);
  }
}

TEST_F(CublasLt, EveryCallFailsInTurn) {
  // Two batch axes, and an empty sum at the end, make every kind of call.
  const Graph graph = parsed(R"(graph @f(%x: f32[2,N,3,5], %w: f32[2,3,5,4], %b: f32[4]) {
  %t = transpose(%x){perm=[0,2,1,3]}
  %m = matmul(%t, %w)
  %s = add(%m, %b)
  return %s
})");
  const int failed = fail_in_turn(kFunctions, graph, {7}, cublaslt::kLtInternalError,
                                  [](const Status& status, const std::string& function) {
                                    EXPECT_EQ(status.code(), Code::environment);
                                    EXPECT_THAT(status.message(),
                                                HasSubstr(function + ": CUBLAS_STATUS_INTERNAL_ERROR (14)"));
                                  });
  EXPECT_GE(failed, 20);
}

TEST_F(CublasLt, DriverFails) {
  const Graph graph = parsed("graph @f(%x: f32[N,K], %w: f32[K,M]) {\n %m = matmul(%x, %w)\n return %m\n}");
  const auto program = make(graph);
  check(*program, graph, {4, 0, 3});
  std::vector<HostTensor> got{HostTensor(DType::f32, {4, 3})};
  mock().fail("cuMemsetD8Async", 1, 700);
  const Status status = run(*program, inputs_of(graph, {4, 0, 3}), got);
  EXPECT_THAT(status.message(), HasSubstr("cuMemsetD8Async: CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  check(*program, graph, {4, 0, 3});
}

// Each thread has its own bias.
TEST_F(CublasLt, Threads) {
  const Graph graph = parsed(
      "graph @f(%x: f32[4,5], %w: f32[5,3], %b: f32[3]) {\n %m = matmul(%x, %w)\n %s = add(%m, %b)\n return "
      "%s\n}");
  check_threads(graph, {}, 2, 200);
  EXPECT_EQ(lt().calls("cublasLtMatmulAlgoGetHeuristic"), 1);
}

TEST_F(CublasLt, OfAnotherDevice) {
  const Graph graph = parsed("graph @f(%x: f32[4,5], %w: f32[5,3]) {\n %m = matmul(%x, %w)\n return %m\n}");
  check(*make(graph), graph, {});
  options.device.index = 1;
  const auto program = make(graph);
  check(*program, graph, {});  // the mock refuses a handle in another device's context
  EXPECT_EQ(lt().calls("cublasLtCreate"), 2);
  EXPECT_EQ(lt().calls("cublasLtMatmulAlgoGetHeuristic"), 2);
}

TEST_F(CublasLt, NoLibrary) {
  setenv("TENON_CUBLASLT", "off", 1);
  cublaslt::forget_library();
  const Graph graph = parsed(typed(kMlp, "f32"));
  const Bid bid = find_backend("cublaslt")->bid(graph, 3);
  EXPECT_FALSE(bid.yes);
  EXPECT_EQ(bid.why, "cuBLASLt is off: TENON_CUBLASLT=off");
  const auto program = Program::make(graph, options, {});
  EXPECT_EQ(program.status().code(), Code::unsupported);  // the host runs the node itself
  EXPECT_THAT(program.status().message(), HasSubstr("cublaslt: cuBLASLt is off: TENON_CUBLASLT=off"));
  setenv("TENON_CUBLASLT", kCublasltMock, 1);
  cublaslt::forget_library();
  EXPECT_TRUE(find_backend("cublaslt")->bid(graph, 3).yes);
}

}  // namespace
}  // namespace tenon

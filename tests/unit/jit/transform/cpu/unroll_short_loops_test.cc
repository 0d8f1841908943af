// Compares kernels without short loops with the original ones, bit for bit.
#include "jit/transform/cpu/unroll_short_loops.h"

#include <gtest/gtest.h>

#include "jit/kernel/walk.h"
#include "tests/support/kernel_rewrite.h"

namespace tenon::jit {
namespace {

Kernel unrolled(Kernel k) {
  DimTable dims;
  return unroll_short_loops(std::move(k), {dims.symbol("N"), dims.symbol("M")});
}

int count(const Kernel& kernel, const std::function<bool(const Stmt&)>& test) {
  int found = 0;
  each_stmt(kernel.body, [&](const Stmt& s) { found += test(s); });
  return found;
}

// Stores %e of `count` iterations into rows of `count` elements.
std::string rows_of(const std::string& count, const std::string& body, const std::string& type = "f32") {
  return "kernel @k(N, M; in %x: " + type + ", in %w: " + type + ", out %y: " + type +
         ") {\n  par %i in 3, simd %r in M {\n    %c = load %w[%r]\n    for %j in " + count + " {\n" + body +
         "      store %y[" + count + "*M*%i + " + count + "*%r + %j], %e\n    }\n  }\n}";
}

TEST(UnrollShortLoops, StoresOfAllIterationsFillVectors) {
  const std::string body =
      "      %v = load %x[M*%i + 7*%r + 3*%j + N*%j]\n      %d = add %c, %c\n      %e = mul %v, %d\n";
  for (const char* type : {"f32", "f64", "bf16", "i32"})
    for (const char* n : {"2", "3", "4"}) expect_same(rows_of(n, body, type), unrolled);
  const Kernel k = unrolled(parsed_kernel(rows_of("3", body)));
  EXPECT_EQ(count(k, is_loop), 1) << print(k);
  EXPECT_EQ(count(k, [](const Stmt& s) { return s.op == ops::add && s.kind == Stmt::Kind::op; }), 1)
      << "all iterations share one sum: " << print(k);
  EXPECT_NE(llvm_text(k, Isa::avx512).find("%mixed"), std::string::npos);
}

TEST(UnrollShortLoops, FoldsLoadElementsThatALaterLoopLoadsAgain) {
  const std::string text = R"(kernel @k(N, M; in %x: f32, out %y: f32, out %s: f32) {
    par %i in N, simd %r in M {
      %top, %sum = reduce maximum, add %j in 3 {
        %v = load %x[3*M*%i + 3*%r + %j]
        %e = abs %v
        yield %v, %e
      }
      for %j2 in 3 {
        %v2 = load %x[3*M*%i + 3*%r + %j2]
        %d = sub %v2, %top
        store %y[3*M*%i + 3*%r + %j2], %d
      }
      store %s[M*%i + %r], %sum
    }
  })";
  expect_same(text, unrolled);
  const Kernel k = unrolled(parsed_kernel(text));
  EXPECT_EQ(count(k, [](const Stmt& s) { return s.kind == Stmt::Kind::load; }), 3) << print(k);
}

TEST(UnrollShortLoops, WindowsOfSeveralAxes) {
  const std::string text = R"(kernel @k(N, M; in %x: f32, out %y: f32) {
    par %i in 3 {
      for simd %r in M {
        %s = reduce add %a in 2, %b in 2 {
          %v = load %x[4*M*%i + 2*%r + 2*M*%a + %b]
          yield %v
        }
        for %j in 2, %k in 2 {
          %v2 = load %x[4*M*%i + 2*%r + 2*M*%j + %k]
          %d = sub %v2, %s
          store %y[4*M*%i + 2*%r + 2*M*%j + %k], %d
        }
      }
    }
  })";
  expect_same(text, unrolled);
  EXPECT_EQ(count(unrolled(parsed_kernel(text)), is_loop), 2);
}

TEST(UnrollShortLoops, OtherLoopsStay) {
  const auto stays = [](const std::string& text) {
    const Kernel k = parsed_kernel(text);
    EXPECT_EQ(print(unrolled(k)), print(k));
  };
  const std::string load = "      %e = load %x[M*%i + 7*%r + 3*%j]\n";
  stays(rows_of("9", load));                                             // 18 loads and stores
  stays(rows_of("3", "      %p = index %j\n      %e = load %x[%p]\n"));  // the position is a value
  stays(
      "kernel @k(N, M; in %x: f32, out %y: f32) {\n  par simd %r in M {\n    for %j in N {\n      %e = load "
      "%x[%j]\n"
      "      store %y[2*%r + %j], %e\n    }\n  }\n}");  // unknown iterations
  stays(
      "kernel @k(N, M; in %x: f32, out %y: f32) {\n  par simd %r in M {\n    for %j in 2 {\n      %e = load "
      "%x[%j]\n"
      "      store %y[%r + M*%j], %e\n    }\n  }\n}");  // stores fill vectors already
  stays(rows_of(
      "2", "      %e = reduce add %a in 2 {\n        %v = load %x[2*%r + %a]\n        yield %v\n      }\n"));
  std::string longer = load;
  for (int i = 0; i < 40; ++i) longer += "      %a" + std::to_string(i) + " = add %c, %e\n";
  stays(rows_of("2", longer));
}

}  // namespace
}  // namespace tenon::jit

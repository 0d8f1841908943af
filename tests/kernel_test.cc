// The kernel IR: text, verifier, canonical text and sizes. The interpreter is tested in interp_test.cc.
#include "jit/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>


namespace tenon::jit {
namespace {

using testing::HasSubstr;

constexpr const char* kRows = R"(kernel @rows(N, M; in %x: f32, in %b: bf16, out %y: f32; local %row: f32[M], local %t: i64[4]) {
  par %i in N, %k in 2*M {
    %mx, %n = reduce maximum, add simd %j in M unroll 4 {
      %v = load %x[M*%i + %j]
      store %row[%j], %v
      %w = load %b[%j]
      yield %v, %w
    }
    %0 = const.i64 -3
    %1 = const.f64 -1.5e-300
    %nan = const.f32 nan
    %2 = size N
    %3 = index %i
    %4 = add %3, %0
    for %a in 3, simd %j3 in M {
      %e3 = load %row[%j3]
      %q = div %e3, %mx
      %h = cast.bf16 %q
      %g = bitcast.i32 %h
      store %y[2*M*%i + N*M - 3*%j3 + 17], %h
    }
    for %j4 in M {
      %z = load %row[%j4]
      %run = scan add %z
      %s = load %x[%4 - %2 - N]
      store %y[-%4 + 9223372036854775807*%j4], %run
    }
    store %t[0], %0
  }
}
)";

TEST(KernelText, PrintsWhatItParsed) {
  std::string text = kRows;
  // A product has one size: N*M is no term.
  ASSERT_THAT(parse_kernel(text).status().message(), HasSubstr("20:27: "));
  text.replace(text.find("N*M"), 3, "N");
  Result<Kernel> kernel = parse_kernel(text);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  EXPECT_EQ(print(*kernel), text);

  std::string canonical = canonical_text(*kernel);
  Result<Kernel> again = parse_kernel(canonical);
  ASSERT_TRUE(again.ok()) << again.status().message() << canonical;
  EXPECT_EQ(print(*again), canonical);
  EXPECT_EQ(canonical_text(*again), canonical);
}

}  // namespace
}  // namespace tenon::jit

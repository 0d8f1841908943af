// Machine code against the interpreter, bit for bit (NaN equals NaN): every place of the emitter, at sizes around the
// vector width, on every instruction set of this machine, with poisoned outputs, canaries and misaligned pointers.
#include <gtest/gtest.h>

#include "tests/kernel_run.h"

namespace tenon::jit {
namespace {

TEST(Emit, Pointwise) {
  check(R"(kernel @chain(N; in %x: f32, in %b: f32, out %y: f32, out %c: bool) {
    par simd %i in N {
      %v = load %x[%i]
      %w = load %b[0]
      %2 = mul %v, %w
      %3 = fma %2, %v, %w
      %4 = maximum %3, %v
      %5 = sqrt %4
      %6 = lt %5, %v
      store %y[%i], %5
      store %c[%i], %6
    }
  })",
        sizes_around("N", {}));
}

TEST(Emit, RowsWithBroadcasts) {
  check(R"(kernel @rows(N, M; in %x: f32, in %col: f32, in %row: f32, out %y: f32) {
    par %i in N, simd %j in M {
      %v = load %x[M*%i + %j]
      %a = load %col[%i]
      %b = load %row[%j]
      %0 = add %v, %a
      %1 = sub %0, %b
      store %y[M*%i + %j], %1
    }
  })",
        sizes_around("M", {{"N", 3}}));
}

TEST(Emit, SoftmaxShape) {
  check(R"(kernel @soft(N, M; in %x: f32, out %y: f32; local %row: f32[M]) {
    par %i in N {
      %mx = reduce maximum simd %j in M unroll 4 {
        %v = load %x[M*%i + %j]
        yield %v
      }
      %s = reduce add simd %j2 in M unroll 2 {
        %v2 = load %x[M*%i + %j2]
        %d = sub %v2, %mx
        %e = mul %d, %d
        store %row[%j2], %e
        yield %e
      }
      for simd %j3 in M {
        %e3 = load %row[%j3]
        %q = div %e3, %s
        store %y[M*%i + %j3], %q
      }
    }
  })",
        sizes_around("M", {{"N", 3}}));
}

TEST(Emit, ColumnReduceAndScan) {
  check(R"(kernel @columns(N, M; in %x: f32, out %s: f32, out %m: f32, out %run: f32) {
    par simd %j in M {
      %sum, %mx = reduce add, maximum %i in N {
        %v = load %x[M*%i + %j]
        yield %v, %v
      }
      for %i2 in N {
        %v2 = load %x[M*%i2 + %j]
        %r = scan add %v2
        store %run[M*%i2 + %j], %r
      }
      store %s[%j], %sum
      store %m[%j], %mx
    }
  })",
        sizes_around("M", {{"N", 3}}));
}

TEST(Emit, StridesAndGathers) {
  check(R"(kernel @strides(N, M; in %x: f32, in %k: i64, out %t: f32, out %g: f32, out %two: f32) {
    par %i in N, simd %j in M {
      %v = load %x[M*%i + %j]
      store %t[N*%j + %i], %v
      %w = load %x[N*%j + %i]
      %k0 = load %k[%j]
      %g0 = load %x[%k0]
      %s = add %w, %g0
      store %g[M*%i + %j], %s
      %u = load %x[M*%i + M - 1 - %j]
      store %two[2*%j + 2*M*%i], %u
    }
  })",
        sizes_around("M", {{"N", 3}}));
}

}  // namespace
}  // namespace tenon::jit

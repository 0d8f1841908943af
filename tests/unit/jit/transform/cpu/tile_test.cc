// Compares tiled kernels with the original ones: integers and maxima are equal, and float sums are more accurate than in order.
#include "jit/transform/cpu/tile.h"

#include <gtest/gtest.h>

#include "tests/support/kernel_rewrite.h"

namespace tenon::jit {
namespace {

Kernel by_columns(Kernel k) {
  DimTable dims;
  return tile_columns(std::move(k), {dims.symbol("N"), dims.symbol("M")});
}

TEST(TileColumns, SumsOfTwoAtOnce) {
  expect_same(R"(kernel @k(N, M; in %x: i32, in %w: i32, out %s: i32, out %p: i32) {
    par simd %c in M {
      %w0 = load %w[%c]
      %a, %b = reduce add, mul %r in N {
        %v = load %x[M*%r + %c]
        %u = add %v, %w0
        yield %v, %u
      }
      %sum = add %a, %w0
      store %s[%c], %sum
      store %p[%c], %b
    }
  })",
              by_columns);
}

TEST(TileColumns, MapsOverRowsReadWhatReductionsLeave) {
  expect_same(R"(kernel @k(N, M; in %x: i32, out %y: i32, out %m: i32) {
    par %o in 2, simd %c in M {
      %k = const.i32 3
      %top = reduce maximum %r in N {
        %v = load %x[M*%r + %c + 5*%o]
        yield %v
      }
      %far = mul %top, %k
      %s = reduce add %r2 in N {
        %v2 = load %x[M*%r2 + %c + 5*%o]
        %d = sub %far, %v2
        yield %d
      }
      store %m[M*%o + %c], %s
      for %r3 in N {
        %v3 = load %x[M*%r3 + %c + 5*%o]
        %d3 = sub %v3, %far
        %e = add %d3, %s
        store %y[2*M*%r3 + M*%o + %c], %e
      }
    }
  })",
              by_columns);
}

// Small integers, whose sums are the same in any order.
TEST(TileColumns, FloatsInBlocks) {
  for (const char* more : {"", R"(
        %v2 = add %v1, %v1
        %v3 = sub %v2, %v1
        %v4 = neg %v3
        %v5 = abs %v4
        %v6 = add %v5, %v4
        %v7 = sub %v6, %v5)"}) {
    const std::string last = *more ? "%v7" : "%v1";
    expect_same(R"(kernel @k(N, M; in %x: i32, out %s: f32, out %t: f32) {
    par simd %c in M {
      %a, %b = reduce add, maximum %r in N {
        %v0 = load %x[M*%r + %c]
        %v1 = cast.f32 %v0)" +
                    std::string(more) + "\n        yield " + last + ", " + last + R"(
      }
      %d = sub %b, %a
      store %s[%c], %a
      store %t[%c], %d
    }
  })",
                by_columns);
  }
}

TEST(TileColumns, WhatIsReducedNeedNotVary) {
  expect_same(R"(kernel @k(N, M; in %w: i32, out %y: i32) {
    par simd %c in M {
      %s = reduce add %r in N {
        %v = load %w[%r]
        yield %v
      }
      %d = add %s, %s
      store %y[%c], %d
    }
  })",
              by_columns);
}

Kernel transposed(Kernel k) {
  DimTable dims;
  return tile_transposed(std::move(k), {dims.symbol("N"), dims.symbol("M")});
}

TEST(TileTransposed, OneOperand) {
  for (const char* type : {"i32", "f64", "bf16", "u8"}) {
    const std::string sum = std::string(type) == "bf16" ? "f32" : type;
    expect_same("kernel @k(N, M; in %x: " + std::string(type) + ", in %w: " + sum + ", in %z: " + sum +
                    ", out %y: " + sum + R"() {
      par %i in N {
        %s = load %w[%i]
        for simd %j in M {
          %v = load %x[%i + N*%j + 3]
          %u = load %z[M*%i + %j]
          %a = add %v, %u
          %b = add %a, %s
          store %y[M*%i + %j], %b
        }
      }
    })",
                transposed);
  }
}

TEST(TileTransposed, BatchesAndTwoOperands) {
  expect_same(R"(kernel @k(N, M; in %x: i32, in %z: i32, out %y: i32) {
    par %b in 2, %i in N {
      for simd %j in M {
        %v = load %x[%i + 2*N*%j + N*%b]
        %u = load %z[%i + N*%j]
        %a = add %v, %u
        %i64 = index %i
        %c = cast.i32 %i64
        %d = add %a, %c
        store %y[2*M*%i + M*%b + %j], %d
      }
    }
  })",
              transposed);
}

Kernel by_rows(Kernel k) {
  DimTable dims;
  return tile_rows(std::move(k), {dims.symbol("N"), dims.symbol("M")});
}

TEST(TileRows, LoopsShareTheCopyOfARow) {
  expect_same(R"(kernel @k(N, M; in %x: i32, in %w: i32, out %y: i32, out %m: i32) {
    par %b in 2, %i in N {
      %w0 = load %w[%i]
      %top = reduce maximum simd %j in M {
        %v = load %x[%i + 2*N*%j + N*%b]
        yield %v
      }
      %s = reduce add simd %j2 in M {
        %v2 = load %x[%i + 2*N*%j2 + N*%b]
        %d = sub %top, %v2
        yield %d
      }
      store %m[N*%b + %i], %top
      for simd %j3 in M {
        %v3 = load %x[%i + 2*N*%j3 + N*%b]
        %u3 = load %x[%i + N*%j3]
        %a = add %v3, %s
        %a2 = add %a, %u3
        %a3 = add %a2, %w0
        store %y[2*M*%i + M*%b + %j3], %a3
      }
    }
  })",
              by_rows);
}

TEST(TileRows, StoresGoThroughALocal) {
  expect_same(R"(kernel @k(N, M; in %x: i32, out %y: i32, out %z: i32) {
    par %i in N {
      %top = reduce maximum simd %j in M {
        %v = load %x[M*%i + %j]
        yield %v
      }
      for simd %j2 in M {
        %v2 = load %x[M*%i + %j2]
        %d = sub %v2, %top
        store %y[%i + N*%j2], %d
        store %z[M*%i + %j2], %d
      }
    }
  })",
              by_rows);
}

TEST(TileRows, PartsOfASumAreTiles) {
  expect_same(R"(kernel @k(N, M; in %x: i32, in %w: i32, out %y: i32) {
    par %i in 2 {
      %s = reduce add %part in N by 16 {
        %p = reduce add %r in %part, simd %j in M {
          %v = load %x[%r + N*%j + %i]
          %u = load %w[M*%r + %j]
          %m = mul %v, %u
          yield %m
        }
        yield %p
      }
      store %y[%i], %s
    }
  })",
              by_rows);
}

TEST(TileRows, FewRowsStayInPlace) {
  const auto rows = [](const std::string& n) {
    return parsed_kernel("kernel @k(M; in %x: i32, out %y: i32) {\n par %i in " + n +
                         " {\n %s = reduce add simd %j in M {\n %v = load %x[%i + " + n +
                         "*%j]\n yield %v\n }\n store %y[%i], %s\n }\n }");
  };
  EXPECT_EQ(print(by_rows(rows("15"))), print(rows("15")));
  EXPECT_NE(print(by_rows(rows("16"))), print(rows("16")));
}

TEST(TileRows, AnOutputThatIsReadAgainStaysInPlace) {
  const Kernel k = parsed_kernel(R"(kernel @k(N, M; in %x: i32, out %y: i32, out %m: i32) {
    par %i in N {
      for simd %j in M {
        %v = load %x[M*%i + %j]
        store %y[%i + N*%j], %v
      }
      %top = reduce maximum simd %j2 in M {
        %v2 = load %y[%i + N*%j2]
        yield %v2
      }
      store %m[%i], %top
    }
  })");
  EXPECT_EQ(print(by_rows(k)), print(k));
}

// The address depends on a value that the loop computes, so no square tile of memory can be loaded.
TEST(TileTransposed, AComputedIndexIsReadByLane) {
  const std::string text = R"(kernel @k(N, M; in %x: i32, out %y: i32) {
    par %t in N by 16 {
      for simd %j in M {
        for %i in %t {
          %n = index %i
          %half = load %x[%i]
          %at = cast.i64 %half
          %v = load %x[%i + 3*%j + %at]
          store %y[M*%i + %j], %v
        }
      }
    }
  })";
  check(text, {{{"N", 33}, {"M", 17}}, {{"N", 16}, {"M", 8}}});
}

TEST(TileColumns, ErrorsStaySmall) {
  const std::string text = R"(kernel @k(N, M; in %x: f32, out %y: f32) {
    par simd %c in M {
      %s = reduce add %r in N {
        %v = load %x[M*%r + %c]
        yield %v
      }
      store %y[%c], %s
    }
  })";
  const Kernel plain = parsed_kernel(text), tiled = by_columns(plain);
  const int64_t n = 20000;
  std::vector<float> x(n), y(1);
  double exact = 0;
  for (int64_t i = 0; i < n; ++i) exact += x[i] = 0.1f + static_cast<float>(i % 7) * 0.01f;
  auto error = [&](const Kernel& k) {
    TENON_CHECK(interpret(k, {{x.data(), n}, {y.data(), 1}}, {n, 1}).ok(), "runs");
    return std::abs(y[0] - exact) / exact;
  };
  EXPECT_LT(error(tiled), 2e-6);
  EXPECT_GT(error(plain), 5 * error(tiled));
}

}  // namespace
}  // namespace tenon::jit

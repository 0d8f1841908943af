// Compares machine code with the interpreter bit for bit (NaN equals NaN): every path of the emitter, at sizes around the vector
// width, on every instruction set of this machine, with poisoned outputs, canaries and misaligned pointers.
#include <gtest/gtest.h>

#include "jit/llvm/compiler.h"
#include "tests/support/kernel_run.h"

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

TEST(Emit, RowsThatAreReadOnce) {
  check(R"(kernel @sums(N, M; in %x: f32, out %y: f32, out %z: f32) {
    par %i in N {
      %s, %m = reduce add, maximum simd %j in M unroll 4 {
        %v = load %x[M*%i + %j]
        %w = mul %v, %v
        yield %w, %v
      }
      store %y[%i], %s
      store %z[%i], %m
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

// Lanes that lie up to kWideStride elements apart share whole vectors, in either direction; beyond it they do not.
TEST(Emit, ElementsAFewApart) {
  for (int stride : {2, 3, 8, 9})
    for (const char* type : {"f32", "f64", "i8", "bf16"}) {
      const std::string s = std::to_string(stride), t = type;
      check("kernel @apart(N, M; in %x: " + t + ", out %y: " + t + ", out %z: " + t +
                ") {\n  par %i in N, simd %j in M {\n    %v = load %x[9*M*%i + " + s +
                "*%j]\n    store %y[M*%i + %j], %v\n    %w = load %x[9*M*%i - " + s + "*%j + " + s + "*M - " +
                s + "]\n    store %z[M*%i + %j], %w\n  }\n}",
            sizes_around("M", {{"N", 3}}));
    }
}

// Stores that fill a stretch of memory together, in any order, write whole vectors; not if one is missing, or if the block reads
// what they write.
TEST(Emit, StoresOfNeighbours) {
  for (int count : {2, 3, 4, 5})
    for (const char* type : {"f32", "f64", "i8", "bf16"}) {
      const std::string n = std::to_string(count), t = type;
      std::string stores;
      for (int i = 0; i < count; ++i) {
        const std::string r = std::to_string(i), at = std::to_string((i + 1) % count);
        stores += "    %v" + r + " = load %x[9*M*%i + %j + " + r + "*M]\n    store %y[" + n + "*M*%i + " + n +
                  "*%j + " + at + "], %v" + r + "\n";
      }
      const std::string head = "kernel @beside(N, M; in %x: " + t + ", out %y: " + t + ", out %z: " + t +
                               ") {\n  par %i in N, simd %j in M {\n",
                        copied = "    %z0 = load %y[" + n + "*M*%i + " + n +
                                 "*%j]\n    store %z[M*%i + %j], %z0\n";
      const auto mixes = [&](const std::string& text) {
        check(text, sizes_around("M", {{"N", 3}}));
        return llvm_text(*parse_kernel(text), Isa::avx512).find("%mixed") != std::string::npos;
      };
      const std::string last = "    store %z[M*%i + %j], %v0\n  }\n}";
      EXPECT_EQ(mixes(head + stores + last), count < 5) << n << t;
      EXPECT_FALSE(mixes(head + stores + copied + "  }\n}")) << n << t;
      const std::string some = stores.substr(0, stores.rfind("    store"));
      EXPECT_FALSE(count > 2 && mixes(head + some + last)) << n << t;
    }
}

// Two rows of an image that is enlarged: neighbours are stored together within each row.
TEST(Emit, StoresOfNeighboursInTwoRows) {
  const std::string text = R"(kernel @rows(N, M; in %x: f32, out %y: f32) {
    par %i in N, simd %j in M {
      %a = load %x[M*%i + %j]
      %b = neg %a
      store %y[4*M*%i + 2*%j], %a
      store %y[4*M*%i + 2*%j + 2*M + 1], %b
      store %y[4*M*%i + 2*%j + 2*M], %a
      store %y[4*M*%i + 2*%j + 1], %b
    }
  })";
  check(text, sizes_around("M", {{"N", 3}}));
  const std::string code = llvm_text(*parse_kernel(text), Isa::avx512);
  EXPECT_NE(code.find("%mixed"), std::string::npos);
  EXPECT_EQ(code.find("scatter"), code.rfind("scatter")) << code;
}

// Lanes that lie within a few vectors of memory, in rising or falling order, are permuted in registers; others are gathered. The
// positions depend on %j alone, as those of a row that is resized.
TEST(Emit, GathersOfNeighbours) {
  for (const char* type : {"f32", "f64", "i32", "i64", "bf16", "i8"}) {
    const std::string t = type;
    const std::string text = "kernel @near(N, M; in %x: " + t + ", out %a: " + t + ", out %b: " + t +
                             ", out %c: " + t + ", out %d: " + t +
                             R"() {
    par %i in N, simd %j in M {
      %p = index %j
      %2 = const.i64 2
      %half = floor_div %p, %2
      %va = load %x[3*M*%i + %half]
      store %a[M*%i + %j], %va
      %m = size M
      %back = sub %m, %p
      %vb = load %x[3*M*%i + %back - 1]
      store %b[M*%i + %j], %vb
      %3 = const.i64 3
      %far = mul %p, %3
      %vc = load %x[3*M*%i + %far]
      store %c[M*%i + %j], %vc
      %7 = const.i64 7
      %turns = remainder %p, %7
      %vd = load %x[3*M*%i + %turns]
      store %d[M*%i + %j], %vd
    }
  })";
    check(text, sizes_around("M", {{"N", 3}}));
    const bool is_byte = t == "i8";  // no instruction of x86-64-v4 permutes bytes
    EXPECT_EQ(llvm_text(*parse_kernel(text), Isa::avx512).find("@llvm.x86.avx512") == std::string::npos,
              is_byte)
        << t;
  }
}

TEST(Emit, NarrowTypesAndCasts) {
  check(
      R"(kernel @narrow(N, M; in %h: f16, in %b: bf16, in %c: i8, in %u: u8, in %f: bool, in %d: f64, out %oh: f16, out %ob: bf16, out %oc: i8, out %ou: u8, out %of: bool, out %od: f64) {
    par %i in N, simd %j in M {
      %0 = load %h[M*%i + %j]
      %1 = load %b[M*%i + %j]
      %2 = load %c[M*%i + %j]
      %3 = load %u[M*%i + %j]
      %4 = load %f[M*%i + %j]
      %5 = load %d[M*%i + %j]
      %6 = mul %0, %1
      %7 = cast.i8 %6
      %8 = add %7, %2
      %9 = cast.u8 %5
      %10 = bit_xor %9, %3
      %11 = cast.bool %8
      %12 = logical_xor %11, %4
      %13 = cast.f64 %6
      %14 = sub %13, %5
      store %oh[M*%i + %j], %6
      store %ob[M*%i + %j], %6
      store %oc[M*%i + %j], %8
      store %ou[M*%i + %j], %10
      store %of[M*%i + %j], %12
      store %od[M*%i + %j], %14
    }
  })",
      sizes_around("M", {{"N", 2}}));
}

// Quotients that the vector code computes exactly, and quotients that are too large for it: in all lanes, in one, in the tail.
TEST(Emit, RemaindersNearAndFar) {
  for (const char* type : {"f32", "f64"})
    for (const char* scale : {"1", "1.5e20", "inf"})
      check(std::string("kernel @rest(N; in %x: ") + type + ", in %z: " + type + ", out %y: " + type +
                ", out %r: " + type + ", out %q: " + type + ", out %f: " + type + R"() {
    par simd %i in N {
      %v = load %x[%i]
      %d = load %z[%i]
      %1 = const.)" +
                type + " " + scale + R"(
      %w = mul %v, %1
      %m = fmod %w, %d
      %n = remainder %v, %w
      %o = floor_div %v, %d
      %l = lt %v, %d
      %s = where %l, %w, %v
      %p = fmod %s, %d
      store %y[%i], %m
      store %r[%i], %n
      store %q[%i], %o
      store %f[%i], %p
    }
  })",
            sizes_around("N", {}));
}

// An output may share the memory of an input if every element is read before it is written.
TEST(Emit, OutputInPlaceOfAnInput) {
  Result<Kernel> kernel = parse_kernel(R"(kernel @centre(N, M; in %x: f32, in %b: f32, out %y: f32) {
    par %i in N {
      %s = reduce add simd %j in M unroll 2 {
        %v = load %x[M*%i + %j]
        yield %v
      }
      for simd %j2 in M {
        %w = load %x[M*%i + %j2]
        %c = load %b[0]
        %d = sub %w, %s
        %e = mul %d, %c
        store %y[M*%i + %j2], %e
      }
    }
  })");
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  for (Isa isa : kAllIsas) {
    Result<Compiled> code = compile_for(*kernel, isa);
    ASSERT_TRUE(code.ok()) << code.status().message();
    std::vector<float> x(5 * 37), b = {0.7f}, y(x.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 11) - 4.3f;
    auto view = [](std::vector<float>& data) {
      return BufferView{data.data(), static_cast<int64_t>(data.size())};
    };
    ASSERT_TRUE(interpret(*kernel, {view(x), view(b), view(y)}, {5, 37}, lanes(isa)).ok());
    const int64_t sizes[] = {5, 37};
    void* buffers[] = {x.data(), b.data(), x.data()};
    code->function(buffers, sizes, nullptr, 0, 5);
    EXPECT_EQ(x, y) << isa_name(isa);
  }
}

struct Element {
  int64_t buffer, place, value;
};

// Checks the fault word of a run on ones with one other element, on every instruction set.
void expect_fault(const Kernel& kernel, const std::map<Isa, Compiled>& compiled, std::vector<int64_t> sizes,
                  std::vector<int64_t> lengths, const Element& other, int32_t wanted) {
  KernelCase c{kernel, std::move(sizes), std::move(lengths), {}};
  for (size_t b = 0; b < c.lengths.size(); ++b) {
    const int bytes = size_of(kernel.buffers[b].type);
    std::vector<char>& data = c.data.emplace_back(c.lengths[b] * bytes);
    for (int64_t i = 0; i < c.lengths[b]; ++i) {
      const int64_t value = static_cast<int64_t>(b) == other.buffer && i == other.place ? other.value : 1;
      std::memcpy(data.data() + i * bytes, &value, bytes);
    }
  }
  BufferBytes interpreted = c.data;
  int32_t fault = 0;
  ASSERT_EQ(interpret(kernel, views(c, interpreted), c.sizes, 16, &fault).message(), "");
  ASSERT_EQ(fault, wanted) << "interpreted";
  ASSERT_EQ(disagreement(c, compiled), "");
}

// Faults in every lane of vectors and tails. Lanes behind the end hold zeros, which must cause no fault.
TEST(Emit, FaultsAreSeenInEveryLane) {
  for (const char* type : {"i64", "i32", "i16", "i8", "u8"})
    for (const char* row : {"floor_div", "trunc_div", "remainder", "fmod"}) {
      const auto kernel = parse_kernel("kernel @divide(N; in %x: " + std::string(type) + ", in %d: " + type +
                                       ", out %y: " + type + R"() {
    par simd %i in N {
      %a = load %x[%i]
      %b = load %d[%i]
      %q = )" + row + R"( %a, %b fault 3
      store %y[%i], %q
    }
  })");
      ASSERT_TRUE(kernel.ok()) << kernel.status().message();
      auto compiled = compile_for_all(*kernel);
      ASSERT_TRUE(compiled.ok()) << compiled.status().message();
      const bool all = type == std::string_view("i64") && row == std::string_view("floor_div");
      for (int64_t n = 0; n <= 33; n += all || n < 2 ? 1 : 8) {
        SCOPED_TRACE(std::string(row) + "." + type + " of " + std::to_string(n));
        expect_fault(*kernel, *compiled, {n}, {n, n, n}, {1, -1, 0}, 0);
        expect_fault(*kernel, *compiled, {n}, {n, n, n}, {0, n / 2, 0}, 0);
        for (int64_t at = 0; at < n; at += all ? 1 : 3)
          expect_fault(*kernel, *compiled, {n}, {n, n, n}, {1, at, 0}, 3);
      }
    }
}

TEST(Emit, IndicesOutOfRangeAreSeenInEveryLane) {
  const auto kernel = parse_kernel(R"(kernel @take(N, M; in %x: f32, in %k: i64, out %y: f32) {
    par simd %i in N {
      %k0 = load %k[%i]
      %m = size M
      %k1 = index_in %k0, %m fault 1
      %v = load %x[%k1]
      store %y[%i], %v
    }
  })");
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  auto compiled = compile_for_all(*kernel);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  constexpr int64_t m = 5, least = std::numeric_limits<int64_t>::min(),
                    most = std::numeric_limits<int64_t>::max();
  for (int64_t n = 0; n <= 33; ++n) {
    expect_fault(*kernel, *compiled, {n, m}, {m, n, n}, {1, -1, 0}, 0);
    for (int64_t at = 0; at < n; at += n < 18 ? 1 : 5)
      for (int64_t k : {least, int64_t{-1}, int64_t{0}, m - 1, m, int64_t{1} << 32, most})
        expect_fault(*kernel, *compiled, {n, m}, {m, n, n}, {1, at, k}, k < 0 || k >= m);
  }
}

// A value that lanes share is checked in front of their loop, but not if the loop is empty.
TEST(Emit, SharedValuesAreCheckedWhereTheyAreUsed) {
  const auto kernel =
      parse_kernel(R"(kernel @rows(N, M, V; in %x: f32, in %k: i64, out %y: f32, out %z: i64) {
    par %i in N {
      %v = size V
      for simd %j in M {
        %k0 = load %k[%i]
        %k1 = index_in %k0, %v fault 1
        %e = load %x[M*%k1 + %j]
        store %y[M*%i + %j], %e
      }
      %n = reduce add %j2 in M {
        %one = index %i
        %d = load %k[%i]
        %q = trunc_div %one, %d fault 2
        yield %q
      }
      store %z[%i], %n
    }
  })");
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  ASSERT_EQ(verify(*kernel).message(), "");
  auto compiled = compile_for_all(*kernel);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  for (int64_t m : {0, 1, 3, 4, 7, 8, 16, 33, 64, 67})
    for (int64_t row = 0; row < 3; ++row) {
      SCOPED_TRACE(m);
      expect_fault(*kernel, *compiled, {3, m, 4}, {4 * m, 3, 3 * m, 3}, {1, row, 7}, m ? 1 : 0);
      expect_fault(*kernel, *compiled, {3, m, 4}, {4 * m, 3, 3 * m, 3}, {1, row, 0}, m ? 2 : 0);
      expect_fault(*kernel, *compiled, {3, m, 4}, {4 * m, 3, 3 * m, 3}, {1, row, 3}, 0);
    }
}

// Random numbers at consecutive positions, at every second position, and at descending positions. Consecutive positions need only
// half as many blocks.
TEST(Emit, RandomNumbersOfNeighboursShareBlocks) {
  for (const char* place : {"%i0", "add %m, %i0", "add %i0, %i0", "sub %m, %i0"}) {
    std::string p(place);
    if (p == "%i0")
      p = "%b = random_bits %i0, %s0";
    else
      p = "%p = " + p + "\n      %b = random_bits %p, %s0";
    const std::string text = R"(kernel @draw(N; in %m: i64, in %s: i64, out %y: i32) {
    par simd %i in N {
      %i0 = index %i
      %s0 = load %s[0]
      %m = load %m[0]
      )" + p + R"(
      store %y[%i], %b
    }
  })";
    check(text, sizes_around("N", {}));
    const auto kernel = parse_kernel(text);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    const std::string machine = llvm_text(*kernel, Isa::avx512);
    const bool side_by_side = place[0] == '%' || std::string_view(place) == "add %m, %i0";
    EXPECT_EQ(machine.find("mul <16 x i64>") == machine.npos, side_by_side) << place;
    EXPECT_EQ(machine.find("mul <8 x i64>") != machine.npos, side_by_side) << place;
    // With the first text vectors begin at even positions, so none needs the block before its first.
    EXPECT_EQ(machine.find("mul i64 %t") == machine.npos, place[0] == '%' || !side_by_side) << place;
  }
}

}  // namespace
}  // namespace tenon::jit

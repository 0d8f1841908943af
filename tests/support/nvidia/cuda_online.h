// Kernels that read their rows several times, with rows of special values, for rows that fit neither registers nor shared memory
// (jit/transform/gpu/join_online_reductions.h). Used by join_online_reductions_test.cc, cuda_schedule_test.cc and nvrtc_test.cc.
#pragma once

#include "tests/support/nvidia/cuda_kernels.h"

namespace tenon::jit {

// $T is the type of the tensors. t holds a column per row, l a number per row; w and b have the length of a row.
inline constexpr const char* kOnlineTexts[] = {
    kCudaTexts[0],
    R"(kernel @log_softmax(N, M; in %x: $T, out %y: $T) {
      par %i in N {
        %mx = reduce maximum simd %j in M unroll 4 {
          %v = load %x[M*%i + %j]
          yield %v
        }
        %s = reduce add simd %j2 in M unroll 4 {
          %v2 = load %x[M*%i + %j2]
          %d = sub %v2, %mx
          %e = exp %d
          yield %e
        }
        %l = log %s
        for simd %j3 in M {
          %v3 = load %x[M*%i + %j3]
          %d3 = sub %v3, %mx
          %q = sub %d3, %l
          store %y[M*%i + %j3], %q
        }
      }
    })",
    R"(kernel @cross_entropy(N, M; in %x: $T, in %t: i64, out %l: $T) {
      par %i in N {
        %mx = reduce maximum simd %j in M unroll 4 {
          %v = load %x[M*%i + %j]
          yield %v
        }
        %s = reduce add simd %j2 in M unroll 4 {
          %v2 = load %x[M*%i + %j2]
          %d = sub %v2, %mx
          %e = exp %d
          yield %e
        }
        %at = load %t[%i]
        %vt = load %x[M*%i + %at]
        %dt = sub %vt, %mx
        %ls = log %s
        %o = sub %ls, %dt
        store %l[%i], %o
      }
    })",
    R"(kernel @expectation(N, M; in %x: $T, in %w: $T, out %y: $T, out %l: $T, out %m: $T; local %row: f32[M]) {
      par %i in N {
        %least, %mx = reduce minimum, maximum simd %j in M {
          %v = load %x[M*%i + %j]
          yield %v, %v
        }
        %s, %h, %all = reduce add, add, maximum simd %j2 in M {
          %v2 = load %x[M*%i + %j2]
          %g = load %w[%j2]
          %d = sub %v2, %mx
          %e = exp %d
          %q = mul %g, %e
          store %row[%j2], %q
          yield %e, %q, %g
        }
        %a = div %h, %s
        %b = sub %mx, %least
        %c = minimum %b, %all
        %o = add %a, %c
        store %l[%i], %o
        store %m[%i], %s
        for simd %j3 in M {
          %q3 = load %row[%j3]
          %p = div %q3, %s
          store %y[M*%i + %j3], %p
        }
      }
    })",
    kCudaTexts[1],
    R"(kernel @group_norm(N, M; in %x: $T, in %w: $T, out %y: $T) {
      par %i in N {
        %n = size M
        %three = const.i64 3
        %nn = mul %n, %three
        %nf = cast.f32 %nn
        %third = const.f32 0.3333333333
        %sum = reduce add %k in 3, simd %j in M unroll 4 {
          %v = load %x[3*M*%i + M*%k + %j]
          yield %v
        }
        %most = div %sum, %nf
        %mean = mul %most, %third
        %sq = reduce add %k2 in 3, simd %j2 in M unroll 4 {
          %v2 = load %x[3*M*%i + M*%k2 + %j2]
          %d = sub %v2, %mean
          %d2 = mul %d, %d
          yield %d2
        }
        %var = div %sq, %nf
        %eps = const.f32 1e-5
        %ve = add %var, %eps
        %r = rsqrt %ve
        for %k3 in 3, simd %j3 in M {
          %v3 = load %x[3*M*%i + M*%k3 + %j3]
          %c = sub %v3, %mean
          %h = mul %c, %r
          %g = load %w[%j3]
          %o = mul %h, %g
          store %y[3*M*%i + M*%k3 + %j3], %o
        }
      }
    })"};

// rows(random, i, m) returns row i of x.
inline KernelCase online_case(
    const char* text, DType type, int64_t n, int64_t m,
    const std::function<std::vector<float>(std::mt19937&, int64_t, int64_t)>& rows) {
  std::string typed = text;
  for (size_t at; (at = typed.find("$T")) != typed.npos;) typed.replace(at, 2, name(type));
  KernelCase c;
  const auto kernel = parse_kernel(typed);
  TENON_CHECK(kernel.ok(), kernel.status().message());
  c.kernel = *kernel;
  c.sizes = {n, m};
  const int64_t row = c.kernel.name == "group_norm" ? 3 * m : m;
  std::mt19937 random(static_cast<unsigned>(n * 131 + m));
  for (const Buffer& b : c.kernel.buffers) {
    if (b.role == Buffer::Role::local) continue;
    const bool each = b.name == "l" || b.name == "m" || b.name == "t";
    const int64_t length = each ? n : b.name == "w" || b.name == "b" ? m : n * row;
    c.lengths.push_back(length);
    std::vector<char> bytes(static_cast<size_t>(length) * size_of(b.type), '\x5a');
    for (int64_t e = 0, i = 0; e < length && b.role == Buffer::Role::in; ++i) {
      if (b.name == "t") {
        const int64_t at = m > 0 ? static_cast<int64_t>(random() % static_cast<unsigned>(m)) : 0;
        std::memcpy(bytes.data() + 8 * e++, &at, 8);
        continue;
      }
      for (float x : b.name == "x" ? rows(random, i, row) : rows(random, 0, m)) {
        const uint16_t half = b.type == DType::bf16 ? f32_to_bf16(x) : f32_to_f16(x);
        std::memcpy(bytes.data() + e++ * size_of(b.type),
                    b.type == DType::f32 ? static_cast<void*>(&x) : (void*)&half, size_of(b.type));
      }
    }
    c.data.push_back(std::move(bytes));
  }
  return c;
}

}  // namespace tenon::jit

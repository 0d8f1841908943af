// Kernels like those of real groups, with data: softmax, layer_norm, a bias and gelu, sums of embeddings, of columns, a running
// sum, a reversal, a sum in parts, the backward pass of a norm. Used by emit_cuda_test.cc and nvrtc_test.cc.
#pragma once

#include <random>

#include "src/base/convert.h"
#include "tests/support/kernel_gen.h"

namespace tenon::jit {

// $T is the type of the tensors.
inline constexpr const char* kCudaTexts[] = {
    R"(kernel @softmax(N, M; in %x: $T, out %y: $T; local %row: f32[M]) {
      par %i in N {
        %mx = reduce maximum simd %j in M unroll 4 {
          %v = load %x[M*%i + %j]
          yield %v
        }
        %s = reduce add simd %j2 in M unroll 2 {
          %v2 = load %x[M*%i + %j2]
          %d = sub %v2, %mx
          %e = exp %d
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
    R"(kernel @layer_norm(N, M; in %x: $T, in %w: $T, in %b: $T, out %y: $T, out %m: $T) {
      par %i in N {
        %n = size M
        %nf = cast.f32 %n
        %sum = reduce add simd %j in M unroll 4 {
          %v = load %x[M*%i + %j]
          yield %v
        }
        %mean = div %sum, %nf
        %sq = reduce add simd %j2 in M unroll 4 {
          %v2 = load %x[M*%i + %j2]
          %d = sub %v2, %mean
          %d2 = mul %d, %d
          yield %d2
        }
        %var = div %sq, %nf
        %eps = const.f32 1e-5
        %ve = add %var, %eps
        %r = rsqrt %ve
        store %m[%i], %mean
        for simd %j3 in M {
          %v3 = load %x[M*%i + %j3]
          %c = sub %v3, %mean
          %h = mul %c, %r
          %g = load %w[%j3]
          %hg = mul %h, %g
          %a = load %b[%j3]
          %o = add %hg, %a
          store %y[M*%i + %j3], %o
        }
      }
    })",
    R"(kernel @bias_gelu(N, M; in %x: $T, in %b: $T, out %y: $T, out %p: bool) {
      par %i in N, simd %j in M {
        %x0 = load %x[M*%i + %j]
        %b0 = load %b[%j]
        %v = add %x0, %b0
        %r = const.f32 0.70710678
        %z = mul %v, %r
        %e = erf %z
        %one = const.f32 1.0
        %f = add %e, %one
        %half = const.f32 0.5
        %h = mul %v, %half
        %o = mul %h, %f
        %zero = const.f32 0.0
        %positive = gt %o, %zero
        store %y[M*%i + %j], %o
        store %p[M*%i + %j], %positive
      }
    })",
    R"(kernel @embedding_sum(N, M; in %t: $T, in %n: i64, out %y: $T) {
      par %i in N, simd %j in M {
        %s = reduce add %k in 3 {
          %at = load %n[3*%i + %k]
          %v = load %t[M*%at + %j]
          yield %v
        }
        store %y[M*%i + %j], %s
      }
    })",
    R"(kernel @column_sum(N, M; in %x: $T, out %y: $T) {
      par simd %j in M {
        %s = reduce add %i in N {
          %v = load %x[M*%i + %j]
          yield %v
        }
        store %y[%j], %s
      }
    })",
    R"(kernel @transposed_running_sum(N, M; in %x: $T, out %y: $T) {
      par %j in M {
        for %i in N {
          %v = load %x[M*%i + %j]
          %s = scan add %v
          store %y[N*%j + %i], %s
        }
      }
    })",
    R"(kernel @reversed(N, M; in %x: $T, out %y: $T) {
      par %i in N, simd %j in M {
        %v = load %x[M*%i - %j + M]
        store %y[M*%i + %j], %v
      }
    })",
    R"(kernel @halved(N, M; in %x: $T, out %y: $T) {
      par simd %i in N {
        %v = load %x[%i]
        %h = const.f32 0.5
        %o = mul %v, %h
        store %y[%i], %o
      }
    })",
    R"(kernel @sum_parts(N, M; in %x: $T, out %y: $T) {
      par %p in M by 1024 {
        %s = reduce add simd %j in %p unroll 4 {
          %v = load %x[%j]
          yield %v
        }
        store %y[%p], %s
      }
    })",
    R"(kernel @norm_backward(N, M; in %x: $T, in %d: $T, in %w: $T, out %y: $T, out %p: $T; local %a: f32[M]) {
      par %b in N by 4 {
        %z = const.f32 0.0
        %n = const.f32 0.001
        for simd %c in M {
          store %a[%c], %z
        }
        for %i in %b {
          %s = reduce add simd %j in M unroll 4 {
            %v = load %x[M*%i + %j]
            %g = load %d[M*%i + %j]
            %q = mul %v, %g
            yield %q
          }
          %m = mul %s, %n
          for simd %k in M {
            %v2 = load %x[M*%i + %k]
            %g2 = load %d[M*%i + %k]
            %w2 = load %w[%k]
            %h = mul %g2, %w2
            %u = mul %v2, %m
            %o = sub %h, %u
            store %y[M*%i + %k], %o
            %a0 = load %a[%k]
            %e = mul %v2, %g2
            %a1 = add %a0, %e
            store %a[%k], %a1
          }
        }
        for simd %l in M {
          %t = load %a[%l]
          store %p[M*%b + %l], %t
        }
      }
    })",
    R"(kernel @column_variance(N, M; in %x: $T, out %w: $T) {
      par simd %j in M {
        %s = reduce add %i in N {
          %v = load %x[M*%i + %j]
          yield %v
        }
        %n = size N
        %c = cast.f32 %n
        %m = div %s, %c
        %q = reduce add %k in N {
          %v2 = load %x[M*%k + %j]
          %d = sub %v2, %m
          %e = mul %d, %d
          yield %e
        }
        %r = div %q, %c
        store %w[%j], %r
      }
    })"};

// Writes the number `x` in this type.
inline void put_element(DType t, double x, char* to) {
  auto put = [&](auto v) { std::memcpy(to, &v, sizeof v); };
  switch (t) {
    case DType::f64: return put(x);
    case DType::f32: return put(static_cast<float>(x));
    case DType::bf16: return put(f32_to_bf16(static_cast<float>(x)));
    case DType::f16: return put(f32_to_f16(static_cast<float>(x)));
    case DType::i64: return put(static_cast<int64_t>(x));
    case DType::i32: return put(static_cast<int32_t>(x));
    default: TENON_CHECK(false, "a type that no kernel here has");
  }
}

// The initial bytes of a buffer: numbers for an input, indices of `n` rows for the input %n, and a pattern for an output.
inline std::vector<char> random_elements(const Buffer& b, int64_t length, int64_t n, std::mt19937& random) {
  std::vector<char> bytes(static_cast<size_t>(length) * size_of(b.type), '\x5a');
  std::uniform_real_distribution<float> any(-3, 3);
  for (int64_t e = 0; e < length && b.role == Buffer::Role::in; ++e) {
    const float x = any(random);
    const uint32_t row = n > 0 ? static_cast<uint32_t>(random() % static_cast<unsigned>(n)) : 0;
    const double number = b.name == "n" ? row : is_float(b.type) ? x : std::floor(100 * x);
    put_element(b.type, number, bytes.data() + e * size_of(b.type));
  }
  return bytes;
}

// A kernel of kCudaTexts with tensors of this type. Kernels of f64 compute in f64. Integers are allowed for the kernels that use
// no operation of floats only.
inline KernelCase real_case(const char* text, DType type, int64_t n, int64_t m) {
  std::string typed = text;
  for (size_t at; (at = typed.find("$T")) != typed.npos;) typed.replace(at, 2, name(type));
  for (size_t at; type == DType::f64 && (at = typed.find("f32")) != typed.npos;) typed.replace(at, 3, "f64");
  KernelCase c;
  auto kernel = parse_kernel(typed);
  TENON_CHECK(kernel.ok(), kernel.status().message());
  c.kernel = *kernel;
  c.sizes = {n, m};
  std::mt19937 random(static_cast<unsigned>(n * 131 + m));
  for (const Buffer& b : c.kernel.buffers) {
    if (b.role == Buffer::Role::local) continue;
    const bool rows = b.name == "m",
               columns = b.name == "w" || b.name == "b" || (c.kernel.name == "column_sum" && b.name == "y");
    // x of the reversed kernel has one more element in front, since the kernel reads elements 1 to M.
    int64_t length = (rows ? n : columns ? m : n * m) + (c.kernel.name == "reversed" && b.name == "x");
    if (b.name == "n") length = 3 * n;
    c.lengths.push_back(length);
    c.data.push_back(random_elements(b, length, n, random));
  }
  return c;
}

}  // namespace tenon::jit

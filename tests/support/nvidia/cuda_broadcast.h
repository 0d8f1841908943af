// Maps that read some of their operands repeatedly, in the form in which lowering makes them for a GPU, with data. Used by
// emit_cuda_maps_test.cc, cuda_schedule_test.cc and nvrtc_test.cc.
#pragma once

#include "tests/support/nvidia/cuda_kernels.h"
#include "tests/support/nvidia/cuda_transposing.h"

namespace tenon::jit {

// $T is the type of the tensors. Sizes are N, C, W, and products of them.
inline constexpr const char* kBroadcastTexts[] = {
    R"(kernel @bias(N, C, W, CW, NW; in %x: $T, in %b: $T, out %y: $T) {
      par %i in N {
        for simd %k in W {
          %v = load %x[W*%i + %k]
          %b0 = load %b[%k]
          %s = add %v, %b0
          store %y[W*%i + %k], %s
        }
      }
    })",
    R"(kernel @channels(N, C, W, CW, NW; in %x: $T, in %b: $T, out %y: $T) {
      par %i in N, %j in C {
        %b0 = load %b[%j]
        for simd %k in W {
          %v = load %x[CW*%i + W*%j + %k]
          %s = add %v, %b0
          store %y[CW*%i + W*%j + %k], %s
        }
      }
    })",
    // Biases of channels, along the last axis, and of images.
    R"(kernel @biases(N, C, W, CW, NW; in %x: $T, in %b: $T, in %c: $T, in %m: $T, out %y: $T) {
      par %i in N, %j in C {
        %c0 = load %c[%j]
        %m0 = load %m[%i]
        for simd %k in W {
          %v = load %x[CW*%i + W*%j + %k]
          %b0 = load %b[%k]
          %s = add %v, %b0
          %t = add %s, %c0
          %u = mul %t, %m0
          store %y[CW*%i + W*%j + %k], %u
        }
      }
    })",
    // [N, 1, W] + [1, C, 1].
    R"(kernel @outer_sum(N, C, W, CW, NW; in %x: $T, in %b: $T, out %y: $T) {
      par %i in N, %j in C {
        %b0 = load %b[%j]
        for simd %k in W {
          %v = load %x[W*%i + %k]
          %s = add %v, %b0
          store %y[CW*%i + W*%j + %k], %s
        }
      }
    })",
    // Reads rows of a table at computed positions, every second element of another input; has two outputs.
    R"(kernel @positions(N, C, W, CW, NW; in %x: $T, in %t: $T, in %n: i64, in %e: $T, out %y: $T, out %p: bool) {
      par %i in N, %j in C, simd %k in W {
        %at = load %n[%j]
        %t0 = load %t[W*%at + %k]
        %e0 = load %e[2*%k]
        %a = mul %t0, %e0
        %v = load %x[CW*%i + W*%j + %k]
        %s = add %v, %a
        %q = lt %v, %a
        store %y[CW*%i + W*%j + %k], %s
        store %p[CW*%i + W*%j + %k], %q
      }
    })",
    // Draws random numbers at positions from 1 on, an odd number.
    R"(kernel @draw(N, C, W, CW, NW; in %x: $T, in %s: i64, out %y: $T, out %r: i32) {
      par %i in N {
        %s0 = load %s[0]
        %i0 = index %i
        %w = size W
        %m = mul %i0, %w
        %one = const.i64 1
        %n = add %m, %one
        for simd %k in W {
          %k0 = index %k
          %p = add %n, %k0
          %b = random_bits %p, %s0
          %f = cast.f32 %b
          %v = load %x[W*%i + %k]
          %t = add %v, %f
          store %y[W*%i + %k], %t
          store %r[W*%i + %k], %b
        }
      }
    })"};
inline constexpr int64_t kDrawSeed = 0x0123456789abcdef;

inline KernelCase broadcast_case(const char* text, DType type, int64_t n, int64_t c, int64_t w) {
  KernelCase made;
  made.kernel = typed_kernel(text, type);
  made.sizes = {n, c, w, c * w, n * w};
  made.lengths = reached_lengths(made.kernel, made.sizes);
  std::mt19937 random(static_cast<unsigned>(n * 131 + c * 17 + w));
  for (size_t i = 0; i < made.lengths.size(); ++i) {
    const Buffer& b = made.kernel.buffers[i];
    if (b.name == "t") made.lengths[i] = c * w;  // values select its rows
    made.data.push_back(random_elements(b, made.lengths[i], c, random));
    if (b.name == "s") std::memcpy(made.data.back().data(), &kDrawSeed, sizeof kDrawSeed);
  }
  return made;
}

}  // namespace tenon::jit

// Maps that transpose, in the form in which lowering makes them for a GPU, with data of any type. Used by emit_cuda_tiles_test.cc,
// cuda_schedule_test.cc and nvrtc_test.cc.
#pragma once

#include <algorithm>
#include <map>
#include <random>

#include "tests/support/kernel_gen.h"

namespace tenon::jit {

// $T is the type of the tensors. Sizes are B, N, M, and products of them.
inline constexpr const char* kTransposingTexts[] = {
    R"(kernel @turn(B, N, M, NM; in %x: $T, out %y: $T) {
      par %i in N {
        for simd %j in M {
          %v = load %x[%i + N*%j]
          store %y[M*%i + %j], %v
        }
      }
    })",
    // Two inputs are transposed, one is not, and one vector runs along either axis.
    R"(kernel @turn_and_choose(B, N, M, NM; in %x: $T, in %z: $T, in %w: $T, in %a: $T, in %b: $T, out %y: $T) {
      par %i in N {
        %a0 = load %a[%i]
        for simd %j in M {
          %v = load %x[%i + N*%j]
          %u = load %z[%i + N*%j]
          %w0 = load %w[M*%i + %j]
          %b0 = load %b[%j]
          %p = eq %v, %u
          %q = eq %a0, %b0
          %r = where %p, %w0, %v
          %s = where %q, %r, %u
          store %y[M*%i + %j], %s
        }
      }
    })",
    // One output is transposed, the other one is not.
    R"(kernel @turn_output(B, N, M, NM; in %x: $T, out %y: $T, out %p: bool) {
      par %i in N {
        for simd %j in M {
          %v = load %x[M*%i + %j]
          %b = eq %v, %v
          store %y[%i + N*%j], %v
          store %p[M*%i + %j], %b
        }
      }
    })",
    R"(kernel @turn_batch(B, N, M, NM; in %x: $T, out %y: $T, out %z: $T) {
      par %k in B, %i in N, simd %j in M {
        %v = load %x[NM*%k + %i + N*%j]
        store %y[NM*%k + M*%i + %j], %v
        store %z[NM*%k + %i + N*%j], %v
      }
    })",
    // [M, B, N] becomes [N, B, M].
    R"(kernel @turn_around(B, N, M, NM, BN, BM; in %x: $T, out %y: $T) {
      par %i in N, %k in B {
        for simd %j in M {
          %v = load %x[BN*%j + N*%k + %i]
          store %y[BM*%i + M*%k + %j], %v
        }
      }
    })"};

// The number of elements from 0 to the last one that an access reaches. Terms that are no loop variable count as one iteration.
inline int64_t reach_of(const Stmt& access, const std::vector<int64_t>& sizes,
                        const std::map<Ref, int64_t>& extents) {
  int64_t last = 0;
  for (const Term& t : access.address) {
    const auto axis = extents.find(t.var);
    const int64_t extent = t.var == kNoRef ? 2 : axis == extents.end() ? 1 : axis->second;
    if (extent == 0) return 0;
    last += t.factor * (t.size < 0 ? 1 : sizes[static_cast<size_t>(t.size)]) * (extent - 1);
  }
  return last + 1;
}

inline Kernel typed_kernel(const char* text, DType type) {
  std::string typed = text;
  for (size_t at; (at = typed.find("$T")) != typed.npos;) typed.replace(at, 2, name(type));
  auto kernel = parse_kernel(typed);
  TENON_CHECK(kernel.ok(), kernel.status().message());
  return *kernel;
}

// The length of each buffer that the kernel needs.
inline std::vector<int64_t> reached_lengths(const Kernel& kernel, const std::vector<int64_t>& sizes) {
  std::map<Ref, int64_t> extents;
  std::vector<int64_t> lengths(kernel.buffers.size(), 0);
  auto walk = [&](auto& self, const Block& block) -> void {
    for (const Stmt& s : block) {
      for (const Axis& a : s.axes) extents[a.var] = extent_value(a.extent, sizes.data());
      if (s.buffer >= 0) {
        int64_t& length = lengths[static_cast<size_t>(s.buffer)];
        length = std::max(length, reach_of(s, sizes, extents));
      }
      self(self, s.body);
    }
  };
  walk(walk, kernel.body);
  return lengths;
}

inline KernelCase transposing_case(const char* text, DType type, int64_t b, int64_t n, int64_t m) {
  KernelCase c;
  c.kernel = typed_kernel(text, type);
  c.sizes = {b, n, m, n * m, b * n, b * m};
  c.sizes.resize(c.kernel.sizes.size());
  c.lengths = reached_lengths(c.kernel, c.sizes);
  std::mt19937 random(static_cast<unsigned>(n * 131 + m));
  for (size_t i = 0; i < c.lengths.size(); ++i) {
    const Buffer& buffer = c.kernel.buffers[i];
    std::vector<char>& bytes =
        c.data.emplace_back(static_cast<size_t>(c.lengths[i]) * size_of(buffer.type), '\x5a');
    if (buffer.role == Buffer::Role::in)
      for (char& byte : bytes) byte = static_cast<char>(is_bool(buffer.type) ? random() % 2 : random() % 251);
  }
  return c;
}

}  // namespace tenon::jit

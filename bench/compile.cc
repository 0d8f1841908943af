// Measures what a kernel costs to compile, and how fast three kernels run: a gelu chain, a softmax row, a layer_norm row.
// compile/K: one module of one kernel; batch/K: per kernel of a module of eight; run/K: nanoseconds an element over rows
// of 1024 in cache. Times are CPU times of one thread.
#include <benchmark/benchmark.h>

#include <cmath>
#include <map>
#include <vector>

#include "jit/kernel/kernel.h"
#include "jit/llvm/compiler.h"
#include "jit/llvm/orc.h"
#include "jit/objects/elf_loader.h"

namespace tenon::jit {
namespace {

constexpr const char* kKernels[] = {
    R"(kernel @gelu_chain(N; in %x: f32, in %b: f32, in %r: f32, out %y: f32) {
      par simd %i in N {
        %0 = load %x[%i]
        %1 = load %b[%i]
        %2 = add %0, %1
        %3 = const.f32 0.5
        %4 = const.f32 0.70710678
        %5 = mul %2, %4
        %6 = erf %5
        %7 = const.f32 1.0
        %8 = add %6, %7
        %9 = mul %2, %3
        %10 = mul %9, %8
        %11 = load %r[%i]
        %12 = add %10, %11
        store %y[%i], %12
      }
    })",
    R"(kernel @softmax(N, M; in %x: f32, out %y: f32; local %row: f32[M]) {
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
    R"(kernel @layer_norm(N, M; in %x: f32, in %w: f32, in %b: f32, out %y: f32) {
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
          %dd = mul %d, %d
          yield %dd
        }
        %var = div %sq, %nf
        %eps = const.f32 1e-5
        %ve = add %var, %eps
        %r = rsqrt %ve
        for simd %j3 in M {
          %v3 = load %x[M*%i + %j3]
          %d3 = sub %v3, %mean
          %n3 = mul %d3, %r
          %w3 = load %w[%j3]
          %b3 = load %b[%j3]
          %y3 = fma %n3, %w3, %b3
          store %y[M*%i + %j3], %y3
        }
      }
    })",
};

Kernel kernel(int64_t index) { return *parse_kernel(kKernels[index]); }

void compile(benchmark::State& state) {
  Kernel k = kernel(state.range(0));
  state.SetLabel(k.name);
  size_t bytes = 0;
  for (auto _ : state) {
    auto object = compile_object(llvm_text(k, host_isa()));
    auto linked = link(*object);
    bytes = linked->bytes;
  }
  state.counters["code_bytes"] = static_cast<double>(bytes);
}

void emit(benchmark::State& state) {
  Kernel k = kernel(state.range(0));
  state.SetLabel(k.name);
  for (auto _ : state) benchmark::DoNotOptimize(llvm_text(k, host_isa()).size());
}

void batch(benchmark::State& state) {
  constexpr int kCount = 8;
  for (auto _ : state) {
    std::string text;
    for (int i = 0; i < kCount; ++i) {
      Kernel k = kernel(i % 3);
      k.name += std::to_string(i);
      text += llvm_text(k, host_isa());
    }
    auto linked = link(*compile_object(text));
    benchmark::DoNotOptimize(linked->bytes);
  }
  state.SetLabel("all three, milliseconds a kernel");
  state.counters["ms_a_kernel"] = benchmark::Counter(
      kCount * 1e-3, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void run(benchmark::State& state) {
  Kernel k = kernel(state.range(0));
  state.SetLabel(k.name);
  auto code = Compiler::get().compile({&k}, host_isa());
  const int64_t rows = 16, width = 1024, count = rows * width;
  std::vector<float> x(count), y(count), w(count, 1.0f);
  for (int64_t i = 0; i < count; ++i) x[i] = std::sin(static_cast<float>(i));
  std::vector<void*> buffers = {x.data(), y.data(), y.data(), y.data()};
  if (state.range(0) == 0) buffers = {x.data(), w.data(), w.data(), y.data()};
  if (state.range(0) == 2) buffers = {x.data(), w.data(), w.data(), y.data()};
  std::vector<int64_t> sizes =
      state.range(0) == 0 ? std::vector<int64_t>{count} : std::vector<int64_t>{rows, width};
  std::vector<char> scratch(scratch_bytes(k, sizes.data()) + 64);
  char* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
  const int64_t iterations = par_iterations(k, sizes.data(), lanes(host_isa()));
  for (auto _ : state) (*code)[0]->function(buffers.data(), sizes.data(), aligned, 0, iterations);
  state.counters["ns_an_element"] =
      benchmark::Counter(static_cast<double>(count) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

BENCHMARK(emit)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);
BENCHMARK(compile)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);
BENCHMARK(batch)->Unit(benchmark::kMillisecond);
BENCHMARK(run)->DenseRange(0, 2)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tenon::jit

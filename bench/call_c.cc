// Measures one call through the C ABI: two map nodes on 16 floats, so checking and binding dominate. The bound is 1.5 us a call.
// `direct` is the same arithmetic in a loop of the host, the floor.
#include <benchmark/benchmark.h>

#include <cmath>

#include "tenon/tenon.h"

namespace {

struct Call {
  float x[16], y[16], z[16];
  int64_t shape[1] = {16};
  tenon_tensor tensors[3];
  const tenon_tensor* in[2] = {&tensors[0], &tensors[1]};
  const tenon_tensor* out[1] = {&tensors[2]};

  Call() {
    float* data[3] = {x, y, z};
    for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(i), y[i] = 0.5f;
    for (int i = 0; i < 3; ++i) tensors[i] = {data[i], {1, 0}, 1, {2, 32, 1}, shape, nullptr, 0};
  }
};

void run(benchmark::State& state, const char* text) {
  Call call;
  tenon_graph* graph = nullptr;
  tenon_program* program = nullptr;
  if (tenon_graph_parse(text, TENON_NTS, &graph) ||
      tenon_program_create(graph, nullptr, nullptr, 0, &program)) {
    state.SkipWithError(tenon_last_error());
    return;
  }
  for (auto _ : state)
    if (tenon_program_run(program, call.in, 2, call.out, 1)) state.SkipWithError(tenon_last_error());
  tenon_program_release(program);
  tenon_graph_release(graph);
}

void fixed(benchmark::State& state) {
  run(state,
      "graph @f(%x: f32[16], %y: f32[16]) {\n  %s = add(%x, %y)\n  %z = mul(%s, %x)\n  return %z\n}\n");
}
BENCHMARK(fixed);

void symbolic(benchmark::State& state) {
  run(state, "graph @f(%x: f32[N], %y: f32[N]) {\n  %s = add(%x, %y)\n  %z = mul(%s, %x)\n  return %z\n}\n");
}
BENCHMARK(symbolic);

void direct(benchmark::State& state) {
  Call call;
  for (auto _ : state) {
    for (int i = 0; i < 16; ++i) call.z[i] = (call.x[i] + call.y[i]) * call.x[i];
    benchmark::DoNotOptimize(call.z);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(direct);

}  // namespace

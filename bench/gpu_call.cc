// Measures what a call on a GPU costs the host without the driver's own work: programs of 1, 16 and 151 kernels run on a driver that
// does nothing (null_driver.cc). Kernels are launched one by one, as a CUDA graph whose tensors stay at the same addresses, and as
// one whose input and output move with every call. The bounds with a real driver: 5 us and 2.5 us per kernel on a stream, 8 us for
// a graph.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tenon/tenon.h"

namespace {

constexpr int32_t kCuda = 2;  // DLPack's number

// Sums of columns and of rows alternate, so that each kernel needs the complete result of the previous one.
std::string chain(int64_t kernels) {
  std::string text = "graph @f(%v0: f32[N,64]) {\n";
  auto v = [](int64_t i) { return "%v" + std::to_string(i); };
  for (int64_t k = 0; k < kernels; ++k) {
    text +=
        "  " + v(2 * k + 1) + " = sum(" + v(2 * k) + "){axes=[" + (k % 2 ? "0" : "1") + "], keepdims=true}\n";
    text += "  " + v(2 * k + 2) + " = mul(" + v(2 * k + 1) + ", %v0)\n";
  }
  return text + "  return " + v(2 * kernels) + "\n}\n";
}

void run(benchmark::State& state, int32_t graphs, bool moves) {
  setenv("TENON_CUDA_DRIVER", TENON_NULL_DRIVER, 1);
  setenv("TENON_NVRTC", TENON_NVRTC_MOCK, 1);
  setenv("TENON_NVRTC_MOCK_RUN", "off", 1);
  const std::string text = chain(state.range(0));
  tenon_program_options options = {};
  options.struct_size = sizeof options;
  options.device = {kCuda, 0};
  options.device_graphs = graphs;
  tenon_graph* graph = nullptr;
  tenon_program* program = nullptr;
  if (tenon_graph_parse(text.data(), text.size(), &graph) ||
      tenon_program_create(graph, &options, nullptr, 0, &program))
    return state.SkipWithError(tenon_last_error());
  int64_t shape[2] = {32, 64}, place = 0;
  tenon_tensor x = {nullptr, {kCuda, 0}, 2, {2, 32, 1}, shape, nullptr, 0}, y = x;
  const tenon_tensor *in[1] = {&x}, *out[1] = {&y};
  auto call = [&] {
    place = moves ? (place + 1) % 64 : 0;
    x.data = reinterpret_cast<void*>((2 * place + 256) << 16);
    y.data = reinterpret_cast<void*>((2 * place + 257) << 16);
    if (tenon_program_run_on(program, in, 1, out, 1, nullptr)) state.SkipWithError(tenon_last_error());
  };
  for (int i = 0; i < 8; ++i) call();
  for (auto _ : state) call();
  tenon_program_stats stats = {};
  stats.struct_size = sizeof stats;
  tenon_program_get_stats(program, &stats);
  state.counters["kernels"] = static_cast<double>(stats.kernels);
  tenon_program_release(program);
  tenon_graph_release(graph);
}

void one_by_one(benchmark::State& state) { run(state, TENON_DEVICE_GRAPHS_NEVER, true); }
void as_graph(benchmark::State& state) { run(state, TENON_DEVICE_GRAPHS_ALWAYS, false); }
void as_graph_that_moves(benchmark::State& state) { run(state, TENON_DEVICE_GRAPHS_ALWAYS, true); }
BENCHMARK(one_by_one)->Arg(1)->Arg(10)->Arg(100);
BENCHMARK(as_graph)->Arg(10)->Arg(100);
BENCHMARK(as_graph_that_moves)->Arg(10)->Arg(100);

}  // namespace

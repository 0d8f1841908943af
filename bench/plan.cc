// Measures plans: the cost of a call with sizes that are new, and with sizes that have a plan. `hit` and `miss` run ten map and
// softmax nodes on few elements; `decode` runs one step of attention over keys and values that grow by one. The bound is 10 us for a
// new size and 0.3 us for a known one, both without the call around it. The counter plan_us is the time to make a plan, per plan;
// `hit` measures the call alone.
#include <benchmark/benchmark.h>

#include <vector>

#include "tenon/tenon.h"

namespace {

const char kGraph[] =
    "graph @ten(%x: f32[N,M], %b: f32[M]) {\n  %a = add(%x, %b)\n  %c = mul(%a, %a)\n  %d = tanh(%c)\n"
    "  %e = softmax(%d){axis=-1}\n  %f = add(%e, %x)\n  %g = sum(%f){axes=[0]}\n  %h = exp(%g)\n  %i = "
    "neg(%h)\n"
    "  %j = mul(%i, %b)\n  %k = add(%f, %j)\n  return %k\n}\n";

// Holds the program of a graph on one thread. The destructor reports what its plans cost. max_plans: 0 means the default.
class Timed {
 public:
  Timed(benchmark::State& state, const char* text, int64_t max_plans) : state_(state) {
    tenon_program_options options = {};
    options.struct_size = sizeof options;
    options.max_plans = max_plans;
    options.num_threads = 1;
    if (tenon_graph_parse(text, TENON_NTS, &graph_) ||
        tenon_program_create(graph_, &options, nullptr, 0, &program_))
      state.SkipWithError(tenon_last_error());
  }
  Timed(const Timed&) = delete;
  ~Timed() {
    if (program_) report();
    tenon_program_release(program_);
    tenon_graph_release(graph_);
  }
  tenon_program* program() const { return program_; }  // NULL: the benchmark is skipped

 private:
  void report() {
    tenon_program_stats stats = {};
    stats.struct_size = sizeof stats;
    tenon_program_get_stats(program_, &stats);
    state_.counters["plan_us"] = 1e3 * stats.plan_ms / static_cast<double>(stats.plan_misses);
    state_.counters["plan_bytes"] = static_cast<double>(stats.plan_bytes) / static_cast<double>(stats.plans);
  }

  benchmark::State& state_;
  tenon_graph* graph_ = nullptr;
  tenon_program* program_ = nullptr;
};

// Runs the sizes 1 to `many` again and again; the program keeps at most `kept` plans.
void run(benchmark::State& state, int64_t many, int64_t kept) {
  const Timed timed(state, kGraph, kept);
  if (!timed.program()) return;
  std::vector<float> x(4 * 1024), b(1024), y(4 * 1024);
  int64_t two[2] = {4, 1};
  tenon_tensor tensors[3] = {{x.data(), {1, 0}, 2, {2, 32, 1}, two, nullptr, 0},
                             {b.data(), {1, 0}, 1, {2, 32, 1}, two + 1, nullptr, 0},
                             {y.data(), {1, 0}, 2, {2, 32, 1}, two, nullptr, 0}};
  const tenon_tensor *in[2] = {&tensors[0], &tensors[1]}, *out[1] = {&tensors[2]};
  for (auto _ : state) {
    two[1] = two[1] % many + 1;
    if (tenon_program_run(timed.program(), in, 2, out, 1)) state.SkipWithError(tenon_last_error());
  }
}

const char kDecode[] =
    "graph @decode(%q: f32[1,2,1,16], %k: f32[1,2,1,16], %v: f32[1,2,1,16], %ks: f32[1,2,N,16], %vs: "
    "f32[1,2,M,16]) {\n"
    "  %k2 = concat(%ks, %k){axis=2}\n  %v2 = concat(%vs, %v){axis=2}\n"
    "  %v3 = slice(%v2){axis=2, end=N+1} : f32[1,2,N+1,16]\n"
    "  %y = attention(%q, %k2, %v3){causal=false, scale=0.25}\n  return %k2, %v2, %y\n}\n";

void decode(benchmark::State& state) {
  const Timed timed(state, kDecode, 0);
  if (!timed.program()) return;
  constexpr int64_t kSteps = 1024;
  std::vector<float> small(32), old[2], next[2], y(32);
  for (auto* list : {&old[0], &old[1], &next[0], &next[1]}) list->resize(2 * 16 * (kSteps + 1));
  int64_t one[4] = {1, 2, 1, 16}, before[4] = {1, 2, 1, 16}, after[4] = {1, 2, 2, 16};
  auto tensor = [](std::vector<float>& data, int64_t* shape) {
    return tenon_tensor{data.data(), {1, 0}, 4, {2, 32, 1}, shape, nullptr, 0};
  };
  tenon_tensor in[5] = {tensor(small, one), tensor(small, one), tensor(small, one), tensor(old[0], before),
                        tensor(old[1], before)};
  tenon_tensor out[3] = {tensor(next[0], after), tensor(next[1], after), tensor(y, one)};
  const tenon_tensor* inputs[5] = {&in[0], &in[1], &in[2], &in[3], &in[4]};
  const tenon_tensor* outputs[3] = {&out[0], &out[1], &out[2]};
  for (auto _ : state) {
    before[2] = before[2] % kSteps + 1, after[2] = before[2] + 1;
    if (before[2] == 1) {
      tenon_program_set_limits(timed.program(), 1, 0);
      tenon_program_set_limits(timed.program(), 0, 0);
    }
    if (tenon_program_run(timed.program(), inputs, 5, outputs, 3)) state.SkipWithError(tenon_last_error());
  }
}
BENCHMARK(decode);

void hit(benchmark::State& state) { run(state, 1, 16); }
BENCHMARK(hit);
void miss(benchmark::State& state) { run(state, 1024, 16); }
BENCHMARK(miss);

}  // namespace

// tenon doctor: reports what Tenon finds on this machine, and whether every back end of the CPU computes:
// each runs a small graph, and the result is compared with the evaluator's. GPU components are listed, not
// run. The exit status is 1 if a back end fails. Tested by tests/cli_test.py.
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "src/base/env.h"
#include "src/base/store/store.h"
#include "src/base/text.h"
#include "src/cli/verbs.h"
#include "src/ir/text.h"
#include "src/ops/eval/eval.h"
#include "src/runtime/program.h"

namespace tenon::cli {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  return "unknown";
}

std::string cpu_features() {
  std::string out;
#if defined(__x86_64__)
  // clang-format off
#define FEATURE(name) \
  if (__builtin_cpu_supports(name)) out += " " name;
  FEATURE("sse2") FEATURE("sse4.2") FEATURE("avx") FEATURE("avx2") FEATURE("fma") FEATURE("avx512f")
  FEATURE("avx512bw") FEATURE("avx512dq") FEATURE("avx512vl") FEATURE("avx512vnni") FEATURE("avx512bf16")
#undef FEATURE
// clang-format on
#endif
              return out.empty()
      ? " none known"
      : out;
}

// CPU time that the control group allows, in CPUs; "no limit" if it sets none.
std::string cgroup_limit() {
  const std::string v2 = first_line("/sys/fs/cgroup/cpu.max");  // "200000 100000" or "max 100000"
  std::string quota = v2.substr(0, v2.find(' ')), period = v2.empty() ? "" : v2.substr(v2.find(' ') + 1);
  if (v2.empty()) {
    quota = first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    period = first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  }
  const auto q = read_double(quota), p = read_double(period);
  if (!q || !p || *q <= 0 || *p <= 0) return "no limit";
  return fmt::format("{:.2f} CPUs", *q / *p);
}

int usable_cpus() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

// Runs the graph on one back end; nodes for which the back end has no kernel are expanded.
Status check(std::string_view backend) {
  TENON_ASSIGN(
      Graph graph,
      parse_graph("graph @doctor(%x: f32[N,M], %w: f32[M,M]) {\n"
                  "  %h = matmul(%x, %w)\n  %s = tanh(%h)\n  %y = softmax(%s){axis=-1}\n  return %y\n}\n"));
  HostTensor x(DType::f32, {5, 19}), w(DType::f32, {19, 19}), y(DType::f32, {5, 19});
  for (int64_t i = 0; i < x.count(); ++i) x.set_number(i, std::sin(static_cast<double>(i)));
  for (int64_t i = 0; i < w.count(); ++i) w.set_number(i, std::cos(static_cast<double>(i)));
  TENON_ASSIGN(std::vector<HostTensor> want, evaluate(graph, std::vector<HostTensor>{x, w}));
  ProgramOptions options;
  options.backends = {std::string(backend)};
  if (backend != "cpu" && backend != "reference")
    options.backends.push_back("cpu");  // a library has no loops
  TENON_ASSIGN(auto program, Program::make(graph, options, {}));
  const Tensor in[] = {{x.bytes.data(), x.dtype, x.shape, {}}, {w.bytes.data(), w.dtype, w.shape, {}}};
  const Tensor out[] = {{y.bytes.data(), y.dtype, y.shape, {}}};
  TENON_TRY(program->run(in, out));
  for (int64_t i = 0; i < y.count(); ++i)
    if (!(std::abs(y.number(i) - want[0].number(i)) <= 1e-5))
      return Status(Code::internal,
                    fmt::format("element {} is {}, not {}", i, y.number(i), want[0].number(i)));
  return {};
}

// The directory of kernels and graphs on disk, and what the checks above found and wrote there.
std::string cache_state() {
  Store& store = Store::process();
  if (store.options().mode == StoreMode::off) return "off: " + store.options().why;
  const Result<std::vector<Store::Item>> items = store.list();
  if (!items.ok()) return "unusable: " + items.status().message();
  int64_t bytes = 0;
  for (const Store::Item& item : *items) bytes += item.bytes;
  const Store::Stats s = store.stats();
  return fmt::format(
      "{}: {} entries, {:.1f} of {:.0f} MiB; just now {} found, {} not found, {} refused, {} stored{}",
      store.options().directory, items->size(), static_cast<double>(bytes) / (1 << 20),
      static_cast<double>(store.options().limit) / (1 << 20), s.hits, s.misses - s.refused, s.refused,
      s.stores, s.failed_stores > 0 ? ", WRITING FAILS" : "");
}

}  // namespace

int doctor() {
  print_line(fmt::format("CPU          {}", cpu_model()));
  print_line(fmt::format("features    {}", cpu_features()));
  print_line(fmt::format("processors   {} in the machine, {} usable, control group: {}",
                         sysconf(_SC_NPROCESSORS_CONF), usable_cpus(), cgroup_limit()));
  print_line(fmt::format("threads      {} a run{}", default_parallel().threads(),
                         env_threads() > 0 ? fmt::format(", TENON_NUM_THREADS={}", env_threads()) : ""));
  int result = kDone;
  for (Backend* backend : all_backends()) {
    if (backend->device_type() != DeviceId::kCpu) continue;
    const Status status = check(backend->name());
    print_line(fmt::format("{:<12} {}: {}", backend->name(), backend->describe(),
                           status.ok() ? "computes" : "FAILS: " + status.message()));
    if (!status.ok()) result = kFailed;
  }
  for (const ReportLine& line : gpu_report()) print_line(fmt::format("{:<12} {}", line.label, line.text));
  print_line("cache        " + cache_state());
  for (const std::string& warning : env_warnings()) print_line("warning      " + warning);
  print_line(result == kDone ? "all is well" : "something is wrong: see above");
  return result;
}

}  // namespace tenon::cli

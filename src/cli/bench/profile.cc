// tenon profile: where the time of a graph's runs goes, step by step. Tested by tests/bench_test.py.
#include "src/runtime/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "src/backend/host_threads.h"
#include "src/cli/bench/bench.h"
#include "src/cli/bench/probe.h"
#include "src/cli/bench/subjects.h"
#include "src/cli/tensors.h"
#include "src/runtime/program.h"

namespace tenon::cli {
namespace {

using Json = nlohmann::json;

// Compares steps with the probes. Measures a copy once per power of two of bytes.
class Roofline {
 public:
  explicit Roofline(int threads) : threads_(threads), peak_(multiply_add_rate(threads)) {}

  double share(double bytes, double operations, double seconds) {
    if (seconds <= 0) return 0;
    int64_t size = 4096;
    while (size < static_cast<int64_t>(bytes)) size *= 2;
    const auto [it, added] = copy_.try_emplace(size, 0.0);
    if (added) it->second = copy_rate(size, threads_);
    return std::max(bytes / it->second, operations / peak_) / seconds;
  }

 private:
  const int threads_;
  const double peak_;
  std::map<int64_t, double> copy_;
};

Status run_for(const Subject& subject, const ProfileArgs& args) {
  if (args.threads > 0) set_host_threads(args.threads);  // libraries ask OpenMP, not the program's options
  Tensors tensors(subject.model.graph, args.files, args.dims, subject.model.tensors, args.seed);
  TENON_TRY(tensors.prepare());
  TENON_ASSIGN(const std::shared_ptr<Program> program,
               Program::make(subject.model.graph, args.options(args.threads), {}));
  const std::vector<Tensor> in = tensors.inputs(), out = tensors.outputs();
  const auto start = ProfileClock::now();
  do {
    TENON_TRY(program->run(in, out));
  } while (std::chrono::duration<double>(ProfileClock::now() - start).count() < args.seconds);
  return {};
}

void print_program(const Json& program, Roofline& roofline) {
  std::vector<Json> steps = program["steps"];
  const double runs = program["runs"], total = program["seconds"];
  double in_steps = 0;
  for (const Json& step : steps) in_steps += step["seconds"].get<double>();
  print_line(fmt::format("{}{}: {} runs, {:.4f} ms each, {:.1f} % of it outside the steps",
                         program["graph"].get<std::string>(),
                         program["sizes"] == "" ? "" : ", " + program["sizes"].get<std::string>(),
                         program["runs"].get<int64_t>(), total / runs * 1e3, (1 - in_steps / total) * 100));
  print_line(fmt::format("{:>7} {:>11} {:>11} {:>8} {:>8} {:>8}  {:<9} ops", "share", "ms", "fastest", "GB/s",
                         "GFLOP/s", "roofline", "back end"));
  std::ranges::stable_sort(steps, [](const Json& a, const Json& b) { return a["seconds"] > b["seconds"]; });
  for (const Json& step : steps) {
    const double seconds = step["seconds"].get<double>() / runs, bytes = step["bytes"],
                 operations = step["operations"];
    print_line(fmt::format("{:>6.1f}% {:>11.4f} {:>11.4f} {:>8.1f} {:>8.1f} {:>7.0f}%  {:<9} {}",
                           step["seconds"].get<double>() / total * 100, seconds * 1e3,
                           step["fastest"].get<double>() * 1e3, bytes / seconds / 1e9,
                           operations / seconds / 1e9, roofline.share(bytes, operations, seconds) * 100,
                           step["backend"].get<std::string>(), step["ops"].get<std::string>()));
    if (step["why"] != "") print_line("        ends because " + step["why"].get<std::string>());
  }
}

// Prints the programs of a trace, as from stop_profile().
void print_trace(const Json& trace, int threads) {
  Roofline roofline(threads);
  print_line(machine());
  for (const Json& program : trace["programs"]) print_program(program, roofline);
}

// Returns null if the file has no trace; it may be a graph.
Json read_trace(const std::string& path) {
  std::ifstream file(path);
  Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains("programs") ? json : Json();
}

int print_saved(const std::string& path, const Json& trace, int threads) {
  try {
    print_trace(trace, threads);
    return kDone;
  } catch (const Json::exception&) {
    return fail(invalid(path + ": it lacks a field of a trace"));
  }
}

}  // namespace

int profile(const ProfileArgs& args) {
  const int threads = args.threads > 0 ? args.threads : default_parallel().threads();
  if (args.sources.size() == 1 && args.sources[0].ends_with(".json"))
    if (const Json trace = read_trace(args.sources[0]); !trace.is_null())
      return print_saved(args.sources[0], trace, threads);
  const auto subjects = read_subjects(args.sources, args.shapes, args.files);
  if (!subjects.ok()) return fail(subjects.status());
  if (const Status status = start_profile(); !status.ok()) return fail(status);
  for (const Subject& subject : *subjects)
    if (const Status status = run_for(subject, args); !status.ok()) return fail(status);
  const auto text = stop_profile();
  if (!text.ok()) return fail(text.status());
  print_trace(Json::parse(*text), threads);
  if (args.trace.empty()) return kDone;
  std::ofstream file(args.trace);
  file << *text;
  file.close();
  return file ? kDone : fail(system_error(args.trace));
}

}  // namespace tenon::cli

// tenon bench: reads or parses graphs, measures every combination of sizes and threads, and reports. Tested by tests/bench_test.py.
#include "src/cli/bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "src/backend/host_threads.h"
#include "src/cli/bench/probe.h"
#include "src/cli/bench/subjects.h"
#include "src/cli/tensors.h"
#include "src/cli/verbs.h"
#include "src/ir/text.h"
#include "src/runtime/difference.h"
#include "src/runtime/profile.h"
#include "src/runtime/program.h"

namespace tenon::cli {
namespace {

constexpr double kMostChecked = 1 << 22;  // operations and bytes of a case that the evaluator computes too

// N=64,256 as {"N=64", "N=256"}; every combination of one entry of each list.
Result<std::vector<std::vector<std::string>>> combinations(const std::vector<std::string>& dims) {
  std::vector<std::vector<std::string>> all{{}};
  std::set<std::string> names, values;
  for (const std::string& item : dims) {
    const size_t equals = item.find('=');
    if (equals == item.npos) return invalid("--dim " + item + ": expected NAME=64 or NAME=64,256");
    if (!names.insert(item.substr(0, equals)).second)
      return invalid("--dim names " + item.substr(0, equals) + " twice; several sizes are N=64,256");
    std::vector<std::vector<std::string>> longer;
    for (size_t at = equals + 1; at <= item.size();) {
      const size_t comma = std::min(item.find(',', at), item.size());
      if (comma > at && !values.insert(item.substr(0, equals + 1) + item.substr(at, comma - at)).second)
        return invalid("--dim " + item + " has a size twice");
      for (std::vector<std::string> one : all) {
        one.push_back(item.substr(0, equals + 1) + item.substr(at, comma - at));
        longer.push_back(std::move(one));
      }
      at = comma + 1;
    }
    all = std::move(longer);
  }
  return all;
}

std::string name_of(const Subject& subject, const std::vector<std::string>& dims, int threads) {
  std::string name = subject.name;
  for (const std::string& dim : dims) name += "/" + dim;
  return name + "/threads:" + std::to_string(threads);
}

class Bench {
 public:
  Bench(const BenchArgs& args, const Subject& subject, int threads)
      : args_(args), subject_(subject), g_(subject.model.graph), threads_(threads) {
    set_host_threads(threads);  // libraries ask OpenMP, not the program's options
  }

  Status compile() {
    const auto start = std::chrono::steady_clock::now();
    TENON_ASSIGN(program_, Program::make(g_, args_.options(threads_), {}));
    compile_ms_ = milliseconds(start);
    if (args_.against == "unfused") {
      ProgramOptions apart = args_.options(threads_);
      apart.without.push_back("fuse");
      TENON_ASSIGN(unfused_, Program::make(g_, apart, {}));
    }
    return {};
  }

  Result<Measured> at_sizes(const std::vector<std::string>& dims) {
    Tensors tensors(g_, args_.files, dims, subject_.model.tensors, args_.seed);
    TENON_TRY(tensors.prepare());
    const std::vector<Tensor> in = tensors.inputs(), out = tensors.outputs();
    Measured m;
    m.name = name_of(subject_, dims, threads_);
    m.subject = subject_.name;
    m.dims = dims;
    m.threads = threads_;
    m.work = work_of(g_, tensors.symbols());
    m.compile_ms = std::exchange(compile_ms_, 0);
    const auto start = std::chrono::steady_clock::now();
    TENON_TRY(program_->run(in, out));
    m.first_ms = milliseconds(start);
    TENON_TRY(check(tensors, &m));
    TENON_TRY(start_profile());
    const Status run = program_->run(in, out);
    TENON_ASSIGN(const std::string profile, stop_profile());
    TENON_TRY(run);
    describe(profile, &m);

    const auto copies = [&] { return copy_rate(static_cast<int64_t>(m.work.bytes), threads_, args_.cold); };
    const double copy = copies(), peak = multiply_add_rate(threads_);
    std::vector<std::function<Status()>> contenders{[&] { return program_->run(in, out); }};
    if (unfused_) contenders.push_back([&] { return unfused_->run(in, out); });
    if (!m.work.expensive.empty()) {
      if (!cheap_) {
        TENON_ASSIGN(cheap_, Program::make(without_expensive(g_), args_.options(threads_), {}));
      }
      contenders.push_back([&] { return cheap_->run(in, out); });
    }
    TENON_ASSIGN(std::vector<Timing> timings,
                 measure(contenders, args_.seconds, args_.rounds,
                         args_.cold ? [&] { flush_caches(threads_); } : std::function<void()>()));
    const double copy_after = copies(), peak_after = multiply_add_rate(threads_);
    m.copy = std::max(copy, copy_after);
    m.peak = std::max(peak, peak_after);
    m.moved = std::max(std::abs(copy_after / copy - 1), std::abs(peak_after / peak - 1));
    if (!m.work.expensive.empty()) m.without_expensive = timings.back().quantile(0.5);
    if (unfused_) m.unfused = timings[1].quantile(0.5);
    m.timing = std::move(timings[0]);
    return m;
  }

  std::string explain() const { return program_->explain(false); }

  // Adds the texts of the graph and of the steps, with their kernels, to results of this subject.
  void add_texts(std::span<Measured> results) const {
    const std::string graph = tenon::print(g_, {.data_limit = 16}), steps = explain();
    for (Measured& m : results) m.graph = graph, m.steps = steps;
  }

 private:
  static double milliseconds(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

  // Wrong results are not timed.
  Status check(const Tensors& tensors, Measured* m) const {
    if (m->work.operations + m->work.apart_bytes > kMostChecked) return {};
    const std::vector<HostTensor> inputs = tensors.input_values();
    std::vector<HostTensor> results;
    for (size_t i = 0; i < g_.outputs.size(); ++i) results.push_back(tensors.output_value(i));
    TENON_ASSIGN(const std::string difference, difference_of(g_, inputs, results));
    if (!difference.empty()) return Status(Code::internal, m->name + " is wrong: " + difference);
    m->checked = true;
    return {};
  }

  // `profile` is the text that stop_profile() returns after one run.
  void describe(const std::string& profile, Measured* m) const {
    m->kernels = program_->stats().kernels;
    const nlohmann::json report = nlohmann::json::parse(profile);
    for (const auto& program : report["programs"])
      for (const auto& step : program["steps"]) {
        m->traffic += step["bytes"].get<double>();
        if (m->ends.empty()) m->ends = step["why"];
      }
  }

  const BenchArgs& args_;
  const Subject& subject_;
  const Graph& g_;
  const int threads_;
  std::shared_ptr<Program> program_, unfused_, cheap_;
  double compile_ms_ = 0;
};

Result<std::vector<Measured>> measure_all(const BenchArgs& args) {
  TENON_ASSIGN(const std::vector<Subject> subjects, read_subjects(args.sources, args.shapes, args.files));
  TENON_ASSIGN(const auto sizes, combinations(args.dims));
  std::vector<int> threads = args.threads;
  if (threads.empty()) threads.push_back(default_parallel().threads());
  if (std::set(threads.begin(), threads.end()).size() < threads.size())
    return invalid("--threads has a number twice");
  for (const std::string& path : {args.json, args.html})
    if (!path.empty()) TENON_TRY(can_write(path));
  size_t width = 0;
  for (const Subject& subject : subjects)
    for (const int t : threads)
      for (const auto& dims : sizes) width = std::max(width, name_of(subject, dims, t).size());
  const Table table(width);
  std::vector<Measured> all;
  for (const Subject& subject : subjects)
    for (const int t : threads) {
      Bench bench(args, subject, t);
      TENON_TRY(bench.compile());
      for (const auto& dims : sizes) {
        TENON_ASSIGN(Measured m, bench.at_sizes(dims));
        table.print(m);
        all.push_back(std::move(m));
      }
      if (args.explain) print_line(bench.explain());
      if (args.keeps_texts()) bench.add_texts(std::span(all).last(sizes.size()));
    }
  return all;
}

int write_page(const std::string& json, const std::string& html) {
  const auto page = page_of(json);
  if (!page.ok()) return fail(page.status());
  const Status status = write_file(html, *page);
  return status.ok() ? kDone : fail(status);
}

}  // namespace

int bench(const BenchArgs& args) {
  setenv("TENON_CACHE", "off", 0);  // so that compile times are those of the compiler
  if (args.print) {
    const auto subjects = read_subjects(args.sources, args.shapes, args.files);
    if (!subjects.ok()) return fail(subjects.status());
    for (const Subject& subject : *subjects) print_line(tenon::print(subject.model.graph));
    return kDone;
  }
  const auto all = measure_all(args);
  if (!all.ok()) return fail(all.status());
  if (!args.keeps_texts()) return kDone;
  const std::string text = json_text(*all);
  if (!args.json.empty())
    if (const Status status = write_file(args.json, text); !status.ok()) return fail(status);
  return args.html.empty() ? kDone : write_page(text, args.html);
}

int bench_page(const PageArgs& args) {
  const auto text = read_file(args.json);
  return text.ok() ? write_page(*text, args.html) : fail(text.status());
}

}  // namespace tenon::cli

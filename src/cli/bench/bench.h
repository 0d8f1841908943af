// The verbs `tenon bench`, `tenon bench compare` and `tenon profile`: how fast a graph runs, how fast it could, and why. Tested by tests/bench_test.py.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/cli/bench/measure.h"
#include "src/cli/bench/work.h"
#include "src/runtime/compile/options.h"

namespace tenon::cli {

// What `bench` and `profile` run, and how.
struct SubjectArgs {
  std::vector<std::string> sources;  // expressions, files of graphs, directories with such files
  std::vector<std::string> shapes;   // of an expression's inputs: NAME:4096x1024:bf16
  std::vector<std::string> dims;     // N=64; in bench also N=64,256,1024, and each value is measured
  std::vector<std::string> files;    // inputs: NAME=file.npy
  std::vector<std::string> backends, without;
  double seconds = 0.5;  // of calls per contender and case
  uint64_t seed = 0;

  ProgramOptions options(int threads) const {
    ProgramOptions wanted;
    wanted.backends = backends;
    wanted.without = without;
    wanted.threads = threads;
    return wanted;
  }
};

struct BenchArgs : SubjectArgs {
  std::vector<int> threads;  // each is measured; empty: all cores
  int rounds = 12;
  bool cold = false;    // empties the caches before every call
  std::string against;  // "unfused": the same graph without fusion takes turns
  bool explain = false;
  bool print = false;  // the graphs' texts instead of measurements
  std::string json;    // a file
  std::string html;    // a file: the results as a page
  bool keeps_texts() const { return !json.empty() || !html.empty(); }
};
int bench(const BenchArgs& args);

// A source may also be a trace, FILE.json, that has been saved: it is shown, and nothing runs.
struct ProfileArgs : SubjectArgs {
  int threads = 0;    // 0: all cores
  std::string trace;  // a file for the trace in Chrome's format
};
int profile(const ProfileArgs& args);

struct PageArgs {
  std::string json, html;  // a file that --json wrote; the file to write
};
// Writes a page that shows the results in a browser, without a network.
int bench_page(const PageArgs& args);

struct CompareArgs {
  std::string before, after;  // files that --json wrote
  double tolerance = 5;       // per cent
};
// kFailed if a case is slower by more than the tolerance, and the rounds of the two runs differ significantly (p < 0.01).
int bench_compare(const CompareArgs& args);

// The result of one case.
struct Measured {
  std::string name;  // "softmax(x)/N=64/threads:2"
  std::string subject;
  std::vector<std::string> dims;  // N=64
  std::string graph, steps;  // their texts, with those of kernels; only if the results are written to a file
  int threads = 1;
  Work work;
  int64_t kernels = 0;
  double traffic = 0;  // bytes that steps read and write
  double compile_ms = 0, first_ms = 0;
  Timing timing;
  double unfused = 0;            // median seconds without fusion; 0: not measured
  double without_expensive = 0;  // median seconds with `neg` in place of exp, tanh, ...; 0: not measured
  double copy = 0, peak = 0;     // what the probes reached: bytes and operations per second
  double moved = 0;              // how much the probes changed during the measurement, as a share
  std::string ends;              // why the first of several groups ends
  bool checked = false;          // compared with the evaluator

  double seconds() const { return timing.quantile(0.5); }
  double bytes_per_second() const { return work.bytes / seconds(); }
  double operations_per_second() const { return work.operations / seconds(); }
  // Divides the larger of the two times that the probes allow by the measured time.
  double share_of_roofline() const;
};

// One sentence: what bounds the case, or what to do.
std::string advice(const Measured& m);
// Prints the head of the table, then a row for each case as soon as it is measured.
class Table {
 public:
  explicit Table(size_t longest_name);
  void print(const Measured& m) const;

 private:
  size_t width_;
};
// In the format of Google Benchmark: one entry per round, and their mean, median and standard deviation.
std::string json_text(const std::vector<Measured>& all);
Status write_file(const std::string& path, const std::string& text);
Status can_write(const std::string& path);  // leaves no new file behind
// The page that shows the text of a file of --json.
Result<std::string> page_of(const std::string& json);

}  // namespace tenon::cli
